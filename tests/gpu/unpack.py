"""Unpack a folder of wheels: modules, and what goes beside Python (bin, lib), into one folder.

`pip install --target` leaves out a wheel's libraries, and MPI is one.
"""

import shutil
import sys
import zipfile
from pathlib import Path


def unpack(wheels, site):
    """Unpack all wheels of a folder; their programs can then be run."""
    found = sorted(wheels.glob("*.whl"))
    if not found:
        raise SystemExit(f"there are no wheels in {wheels}")
    for wheel in found:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
    for part in [*site.glob("*.data/data"), *site.glob("*.data/*lib"), *site.glob("*.data/scripts")]:
        target = site / "bin" if part.name == "scripts" else site
        shutil.copytree(part, target, dirs_exist_ok=True, symlinks=True)
    for program in (site / "bin").glob("*"):
        program.chmod(0o755)


if __name__ == "__main__":
    unpack(*map(Path, sys.argv[1:]))
