"""`nvidia-smi nvlink -s`: the rate of every NVLink port of every GPU; `nvidia-smi -L` names the GPUs alike.

A rate is of one direction, in GB/s of 1e9 bytes (25, 25.781, 26.562 and 53.125 occur).
"""

import re
from dataclasses import dataclass, field

from topologies.files.facts import Accelerator, FileError, MachineFacts
from topologies.files.text.paste import ELLIPSIS, lines, quoted, several, some
from topologies.units import GB

FORMAT = "nvidia-smi nvlink -s"

HIGHEST = 1000.0  # GB/s of one link in one direction; ten times the fastest there is
MOST_LINKS = 128  # of a GPU
MOST_GPUS = 1024

HEAD = re.compile(r"[ \t]*GPU (\d{1,4}):[ \t]*(.*)")
UUID = re.compile(r"[ \t]*\((?:UUID.*|U{0,2}I?$)")
LINK = re.compile(r"[ \t]*Link[ \t]+(\d{1,4})[ \t]*:[ \t]*(.*)")
LINK_BEGUN = re.compile(r"[ \t]*Link\b")
RATE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)[ \t]*GB/s")
INACTIVE = re.compile(r"(?i)<?inactive>?")
ALL_DOWN = re.compile(r"(?i)all links are inactive")
GPU_LINE = re.compile(r"^[ \t>]{0,200}GPU \d{1,4}:[^\n]{0,300}(?:\(UUID|\n[ \t>]{0,200}Link[ \t]+\d)", re.MULTILINE)


@dataclass
class _Gpu:
    """One GPU as its lines are read: index, name, bytes/s of each link so far, and its last line."""

    index: int
    model: str | None
    last: int
    rates: list[float] = field(default_factory=list)
    all_down: bool = False


def looks_like(text: str) -> bool:
    """Whether the text has the line of a GPU as this tool prints it."""
    return GPU_LINE.search(text) is not None


def read(text: str, file: str) -> MachineFacts:
    """Return the GPUs with their models and ports.

    Raises:
        FileError: links are left out (`[...]`), missing or of no rate, or a GPU stands twice and differs.
    """
    found, mig = _found(text, file)
    if not found:
        raise FileError(file, "holds no line such as `GPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)`")
    gpus = _merged(found, file)
    _alike(gpus, file)
    rates = {rate for gpu in gpus for rate in gpu.rates if rate}
    return MachineFacts(
        file,
        FORMAT if any(gpu.rates or gpu.all_down for gpu in gpus) else "nvidia-smi -L",
        gpus=tuple(Accelerator(gpu.index, gpu.model, ports=_ports(gpu)) for gpu in gpus),
        link_bandwidth=rates.pop() if len(rates) == 1 else None,
        notes=tuple(_notes(gpus, mig, len(rates) > 1)),
    )


def _found(text: str, file: str) -> tuple[list[_Gpu], bool]:
    """Return every GPU in the order of the text, and whether one of them is split into MIG instances."""
    found: list[_Gpu] = []
    inside = mig = False  # whether the line before is one of a GPU
    for number, line in enumerate(lines(text, file, FORMAT), 1):
        head = HEAD.fullmatch(line)
        if head:
            model = "".join(filter(str.isprintable, UUID.sub("", head[2])))[:80].strip()
            found.append(_Gpu(int(head[1]), model or None, number))
            inside = True
            if len(found) > MOST_GPUS:
                raise FileError(file, f"holds more than {MOST_GPUS:,} GPUs: keep the output of one machine", number)
        elif LINK_BEGUN.match(line):
            if not found:
                raise FileError(file, "a link of no GPU: the line `GPU 0: ...` above it is missing", number)
            _link(found[-1], line, number, file)
            inside = True
        elif inside and ELLIPSIS.fullmatch(line.strip()):
            raise FileError(
                file, f"{quoted(line.strip())} stands for what was left out: paste the whole output", number
            )
        elif inside and ALL_DOWN.search(line):
            found[-1].all_down = True
        elif inside and line.lstrip().startswith("MIG "):
            mig = True
        elif line.strip():
            inside = False
    return found, mig


def _link(gpu: _Gpu, line: str, number: int, file: str) -> None:
    """Add the link of a line to its GPU."""
    link = LINK.fullmatch(line)
    rate = RATE.fullmatch(link[2]) if link else None
    if not link or not (rate or INACTIVE.fullmatch(link[2])):
        known = "`Link 0: 25.781 GB/s` or `Link 0: <inactive>`"
        raise FileError(file, f"{quoted(line.strip())} of GPU {gpu.index}, expected a line such as {known}", number)
    here, due = int(link[1]), len(gpu.rates)
    if here != due or here >= MOST_LINKS:
        wrong = f"Link {here} of GPU {gpu.index} follows where Link {due} is due"
        raise FileError(file, f"{wrong}: paste the whole output of one machine", number)
    speed = float(rate[1]) if rate else 0.0
    if speed > HIGHEST:
        raise FileError(
            file, f"Link {here} of GPU {gpu.index} has {rate[1] if rate else 0} GB/s, above {HIGHEST:g}", number
        )
    gpu.rates.append(speed * GB)
    gpu.last = number


def _merged(found: list[_Gpu], file: str) -> list[_Gpu]:
    """Return each GPU once; the same said twice, as by `-L` and `nvlink -s`, is one."""
    gpus: dict[int, _Gpu] = {}
    for gpu in found:
        before = gpus.setdefault(gpu.index, gpu)
        if before is gpu:
            continue
        rates = [one.rates for one in (before, gpu) if one.rates]
        if before.model != gpu.model or (len(rates) == 2 and rates[0] != rates[1]):
            raise FileError(file, f"GPU {gpu.index} stands twice and differs: save each machine as a file", gpu.last)
        if not before.rates:
            gpus[gpu.index] = gpu
        gpus[gpu.index].all_down |= before.all_down
    return sorted(gpus.values(), key=lambda gpu: gpu.index)


def _alike(gpus: list[_Gpu], file: str) -> None:
    """Refuse a GPU that shows fewer links than another one of its model: every link has a line, active or not."""
    end = max(gpu.last for gpu in gpus)
    most: dict[str, int] = {}
    for gpu in gpus:
        most[gpu.model or ""] = max(most.get(gpu.model or "", 0), len(gpu.rates))
    for gpu in gpus:
        count = most[gpu.model or ""]
        if gpu.last == end and not gpu.rates:  # the paste may end inside its name
            count = max(links for model, links in most.items() if model.startswith(gpu.model or ""))
        if len(gpu.rates) < count and not gpu.all_down:
            said = f"{len(gpu.rates)} of {count} links"
            wrong = (
                f"the paste ends inside GPU {gpu.index}, after {said}"
                if gpu.last == end
                else (f"GPU {gpu.index} shows {said}, counted by the others of its model")
            )
            raise FileError(file, f"{wrong}: paste the whole output", gpu.last)


def _ports(gpu: _Gpu) -> tuple[float, ...] | None:
    """Return the ports of a GPU; none are known where it shows none."""
    return tuple(gpu.rates) if gpu.rates or gpu.all_down else None


def _notes(gpus: list[_Gpu], mig: bool, several_rates: bool) -> list[str]:
    """Return what is odd about the GPUs."""
    notes = []
    down = [f"{gpu.rates.count(0.0)} of {len(gpu.rates)} links of GPU{gpu.index}" for gpu in gpus if 0.0 in gpu.rates]
    if down:
        notes.append(f"inactive: {some(down)}")
    dark = [f"GPU{gpu.index}" for gpu in gpus if gpu.all_down and not gpu.rates]
    if dark:
        notes.append(f"all links of {several(dark)} are inactive; how many there are is not said")
    silent = [f"GPU{gpu.index}" for gpu in gpus if not gpu.rates and not gpu.all_down]
    if silent:
        notes.append(f"no link is listed for {several(silent)}: its ports are not said")
    shown = {gpu.index for gpu in gpus}
    gaps = [f"GPU{i}" for i in range(max(shown)) if i not in shown]
    if gaps:
        notes.append(f"{several(gaps)} not shown")
    if several_rates:
        notes.append("the active links have different rates")
    if mig:
        notes.append("GPUs are split into MIG instances: taken whole")
    return notes
