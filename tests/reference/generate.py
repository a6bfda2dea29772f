"""Ask SimGrid when the flows of the random instances end, and keep its answers: tests/data/simgrid.json.gz.

    python3 -m tests.reference.generate

needs SimGrid's Python binding (Debian: python3-simgrid) and nothing else; the tests need only what it wrote.
Ends are kept as hexadecimal floats, to the bit.
"""

import datetime
import gzip
import hashlib
import json
import os
import sys
from pathlib import Path

from tests.reference.instances import REGIMES, SEEDS, Instance, instance

FILE = Path(__file__).resolve().parents[1] / "data" / "simgrid.json.gz"
CONFIGURATION = [
    "network/model:CM02",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/TCP-gamma:0",
    "network/weight-S:0",
    "network/crosstraffic:0",
    "network/optim:Full",  # lazy updates, the default, are off by up to 81% where latencies end at one instant
    "surf/precision:1e-14",  # from 4.0 on: precision/timing
    "maxmin/precision:1e-9",  # from 4.0 on: precision/work-amount
]


def digest(instances: list[Instance]) -> str:
    """Return a digest of instances, so that a test knows that it runs what SimGrid ran."""
    return hashlib.sha256(repr(instances).encode()).hexdigest()


def ends(case: Instance) -> list[float]:
    """Run SimGrid on one instance in this process, which it can do once."""
    from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

    engine = Engine(["reference", "--log=root.thresh:error", *(f"--cfg={line}" for line in CONFIGURATION)])
    zone, flows = NetZone.create_full_zone("zone"), range(len(case.routes))
    links = [
        zone.create_link(f"link{k}", capacity).set_latency(latency).seal()
        for k, (capacity, latency) in enumerate(zip(case.capacity, case.latency, strict=True))
    ]
    hosts = [zone.create_host(f"host{k}", 1e9).seal() for k in range(2 * len(flows))]
    for k in flows:
        route = [LinkInRoute(links[link]) for link in case.routes[k]]
        zone.add_route(hosts[2 * k].netpoint, hosts[2 * k + 1].netpoint, None, None, route, False)
    zone.seal()
    found = [0.0] * len(flows)

    def flow(k: int) -> None:
        if case.start[k] > 0:
            this_actor.sleep_for(case.start[k])
        Comm.sendto(hosts[2 * k], hosts[2 * k + 1], case.size[k])
        found[k] = engine.clock

    for k in flows:
        Actor.create(f"flow{k}", hosts[2 * k], flow, k)
    engine.run()
    return found


def in_a_child(case: Instance) -> list[str]:
    """Return the ends of one instance, found by a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps([end.hex() for end in ends(case)]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def main() -> None:
    """Write the file."""
    import simgrid

    cases = {regime: [instance(regime, seed) for seed in range(SEEDS)] for regime in REGIMES}
    document = {
        "simulator": f"SimGrid {simgrid.simgrid_version}",
        "date": datetime.date.today().isoformat(),
        "configuration": CONFIGURATION,
        "instances": {regime: digest(cases[regime]) for regime in REGIMES},
        "ends": {regime: [in_a_child(case) for case in cases[regime]] for regime in REGIMES},
    }
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))
    print(f"{FILE.name}: {FILE.stat().st_size} bytes, {document['simulator']}", file=sys.stderr)


if __name__ == "__main__":
    main()
