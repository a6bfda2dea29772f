"""Note what came of one step of all.sh; without a step, put all notes together as results.json and end with the status.

Only the standard library: what is measured is whether the rest works.
"""

import json
import os
import sys
from pathlib import Path


def note(out, environ):
    """Add a line for one step: its data are the last line of its log, where that is JSON."""
    lines = (out / f"{environ['NAME']}.log").read_text(errors="replace").splitlines()
    data = next((json.loads(line) for line in reversed(lines) if line.startswith("{") and line.endswith("}")), None)
    passed = environ["STATUS"] == environ["EXPECTED"]
    record = {
        "step": environ["NAME"],
        "command": environ["WORDS"],
        "status": environ["STATUS"],
        "expected": environ["EXPECTED"],
        "seconds": int(environ["TOOK"]),
        "passed": passed,
        "data": data,
        "last_line": lines[-1] if lines else "",
    }
    with (out / "steps.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(f"-- {'ok' if passed else 'FAILED'}: {record['step']}, status {record['status']}, {record['seconds']} s")


def whole(out):
    """Write all notes as one file; say which steps failed."""
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    failed = [one["step"] for one in steps if not one["passed"]]
    card = next((one["data"] for one in steps if one["step"] == "card"), None)
    written = out / "results.json.part"
    written.write_text(json.dumps({"schema": "ringloom.gpu/1", "card": card, "steps": steps}, indent=1) + "\n")
    written.replace(out / "results.json")
    seconds = sum(one["seconds"] for one in steps)
    print(f"{len(steps) - len(failed)} of {len(steps)} steps passed in {seconds} s; {out / 'results.json'}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    place = Path(os.environ["OUT"])
    sys.exit(note(place, os.environ) if "NAME" in os.environ else whole(place))
