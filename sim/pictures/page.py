"""A picture as one HTML page: the drawing with its tips, the tables, the sources and the assumptions."""

from html import escape

from sim.pictures import Picture
from sim.pictures.lanes import Lanes
from topologies.describe import Row

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1f2430; max-width: 1180px; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto } h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { text-align: left; padding: .2rem 1.2rem .2rem 0; vertical-align: top }
th { border-bottom: 1px solid #c9ced6 } td.number { text-align: right; font-variant-numeric: tabular-nums }
td { overflow-wrap: anywhere } p { color: #69707d }
""".strip()


def page(picture: Picture, svg: str) -> str:
    """Return the page; svg is the drawing as a file."""
    sections = dict.fromkeys(row.section for row in picture.rows)
    tables = "\n".join(_table(name, [row for row in picture.rows if row.section == name]) for name in sections)
    name = escape(picture.name)
    about = f"{picture.gpus:,} GPUs. Point at a box, a wire or a cell of the heat map to read what it is."
    return _whole(name, about, svg, tables)


def lanes_page(lanes: Lanes, svg: str) -> str:
    """Return the page of two runs; svg is their drawing as a file."""
    about = "Point at an op to read when it ran, and what it took itself; pale while posted, grey while waited for."
    return _whole(escape(lanes.title), about, svg, "")


def _whole(name: str, about: str, svg: str, tables: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{name}</title><style>
{STYLE}
</style></head>
<body>
<h1>{name}</h1>
<p>{about}</p>
{svg[svg.index("<svg") :]}
{tables}
</body>
</html>
"""


def _table(name: str, rows: list[Row]) -> str:
    """Return a section of what `ringloom topology show` prints."""
    counted = any(row.count is not None for row in rows)
    head = f"<th>{escape(name)}</th>{'<th>count</th>' if counted else ''}<th></th>"
    lines = [f"<h2>{escape(name.capitalize())}</h2>", "<table>", f"<tr>{head}</tr>"]
    for row in rows:
        count = f'<td class="number">{row.count:,}</td>' if row.count is not None else ""
        lines.append(f"<tr><td>{escape(row.name)}</td>{count}<td>{_text(row)}</td></tr>")
    return "\n".join([*lines, "</table>"])


def _text(row: Row) -> str:
    """Return a row's text; a source's address as a link."""
    url, _, rest = row.text.partition(" ")
    if row.section == "sources" and url.startswith(("https://", "http://")):
        return f'<a href="{escape(url, quote=True)}">{escape(url)}</a>{" " + escape(rest) if rest else ""}'
    return escape(row.text)
