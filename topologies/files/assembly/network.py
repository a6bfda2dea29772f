"""The listing of a network as a fabric, and as a whole cluster: its hosts are machines, its cables join their NICs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from topologies.files.assembly.merge import short
from topologies.files.facts import Accelerator, Cable, FileError, MachineFacts, NetworkFacts, Port
from topologies.files.text.wording import listed
from topologies.hardware import GPUS, Gpu
from topologies.nics import Network
from topologies.units import Gbit, format_rate

if TYPE_CHECKING:
    import networkx as nx

    from topologies.fabrics import Fabric

Ends = Mapping[str, str]  # host/card -> node of the graph


def fabric_of(listing: NetworkFacts) -> "Fabric":
    """Return a listing as a fabric: machine i stands at the i-th host that has enough cards.

    Raises:
        ValueError: when called, there are not so many such hosts.
    """

    def fabric(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: Network) -> None:
        need = max(map(len, nics))
        cards = _main(listing)
        able = [host for host in cards if len(cards[host]) >= need]
        if len(able) < len(nics):
            most = max(map(len, cards.values()), default=0)
            have = f"{listing.file} has {len(able)} hosts of at least {need} connected cards, none of more than {most}"
            raise ValueError(f"{have}: {len(nics)} machines need as many")
        hosts = able[: len(nics)]
        ends: dict[str, str] = {}
        for host, names in zip(hosts, nics, strict=False):
            ends |= _matched(host, cards[host], names)
        wire(graph, listing, ends, network)
        graph.graph["assumptions"] += [
            f"fabric: machines stand at hosts {listed(hosts, 4)} of {short(listing.file)}, the first that have "
            f"{need} cards",
            f"nic: {_how(ends)}",
        ]

    fabric.__name__ = short(listing.file)
    return fabric


def place(listing: NetworkFacts, machine: Callable[[int], "nx.DiGraph"]) -> "nx.DiGraph":
    """Return a cluster of all hosts of a listing that can hold a machine.

    Args:
        machine: cards of a host -> what stands there; it is asked for each number of cards.
    Raises:
        FileError: no host has cards that are connected, or enough of them.
    """
    import networkx as nx

    hosts = _main(listing)
    if not hosts:
        raise FileError(listing.file, "shows no host with a card that is connected to a switch: no place for a GPU")
    made = {count: machine(count) for count in sorted({len(cards) for cards in hosts.values()})}
    need = {count: [n for n, kind in one.nodes(data="kind") if kind == "nic"] for count, one in made.items()}
    able = {host: cards for host, cards in hosts.items() if 0 < len(need[len(cards)]) <= len(cards)}
    first = next(iter(made.values()))
    if not able:
        most = max(map(len, hosts.values()))
        have = len(need[max(made)]) or "no"
        raise FileError(listing.file, f"has hosts of at most {most} cards, {first.graph['name']} has {have} NICs")
    graph = nx.DiGraph(name=short(listing.file), sources={}, assumptions=[], left_out=[], notes=[], warnings=[])
    ends: dict[str, str] = {}
    rank = 0
    for host, cards in able.items():
        one = made[len(cards)]
        rank = _add(graph, one, host, rank)
        ends |= _matched(host, cards, [f"{host}/{nic}" for nic in need[len(cards)]])
    for one in made.values():
        graph.graph["sources"] |= one.graph["sources"]
        for key in ("assumptions", "left_out", "notes", "warnings"):
            graph.graph[key] += [text for text in one.graph[key] if text not in graph.graph[key]]
    network = first.graph["network"]
    wire(graph, listing, ends, network)
    graph.graph["fabric"] = short(listing.file)
    graph.graph["notes"] = [*(f"{short(listing.file)}: {note}" for note in listing.notes), *graph.graph["notes"]]
    graph.graph["assumptions"].append(f"nic: {_how(ends)}")
    _say_who_is_left(graph, listing, hosts, able)
    return graph


def wire(graph: "nx.DiGraph", listing: NetworkFacts, ends: Ends, network: Network) -> None:
    """Add switches and cables: those of one pair add up, and only switches that lead somewhere are kept.

    Args:
        ends: host/card -> the NIC in the graph that it is.
        network: whose latencies the cables have, and whose bandwidth where the listing gives none.
    """
    import networkx as nx

    names = {switch: f"switch {switch}" if switch in graph else switch for switch in listing.switches} | dict(ends)
    bundles: dict[tuple[str, str], list[Cable]] = defaultdict(list)
    for one in listing.cables:
        if one.a in names and one.b in names:
            a, b = sorted((names[one.a], names[one.b]))
            bundles[a, b].append(one)
    used = nx.Graph(list(bundles))
    held = set(ends.values())
    reached = {node for part in nx.connected_components(used) if part & held for node in part}
    rates = [one.bandwidth for one in listing.cables if one.bandwidth]
    usual = Counter(rates).most_common(1)[0][0] if rates else network.bandwidth
    for (a, b), cables in bundles.items():
        if a not in reached:
            continue
        kind = "nic" if a in held or b in held else "fabric"
        for node in (a, b):
            if node not in held:
                graph.add_node(node, kind="switch")
        rate = sum(one.bandwidth or usual for one in cables)
        whole = sum(one.expected or one.bandwidth or usual for one in cables)
        latency = (network.nic if kind == "nic" else network.switch).latency
        more = {"expected": whole} if whole > rate else {}
        for tail, head in ((a, b), (b, a)):
            graph.add_edge(tail, head, kind=kind, bandwidth=rate, latency=latency, offloaded=True, **more)
    _account(graph, listing, network, usual)


def _account(graph: "nx.DiGraph", listing: NetworkFacts, network: Network, usual: float) -> None:
    """Say where the numbers of the network come from."""
    who = f"{short(listing.file)} ({listing.format})"
    kinds = {kind for _, _, kind in graph.edges(data="kind")}
    for kind, estimate in (("nic", network.nic), ("fabric", network.switch)):
        if kind in kinds:
            graph.graph["sources"][f"{kind}.bandwidth"] = who
            graph.graph["assumptions"].append(estimate.of(f"{kind}.latency"))
    unknown = sum(one.bandwidth is None for one in listing.cables)
    if unknown:
        graph.graph["assumptions"].append(
            f"fabric: {format_rate(usual)} for {unknown} cables; {short(listing.file)} gives them no rate"
        )


def usual_gpu(listing: NetworkFacts) -> Gpu:
    """Return the GPU that machines with cards of the listing's commonest speed have."""
    rates = Counter(port.bandwidth for ports in listing.hosts.values() for port in ports if port.bandwidth)
    gbit = rates.most_common(1)[0][0] / Gbit if rates else 0.0
    name = "H100-SXM5-80" if gbit >= 300 else "A100-SXM4-80" if gbit >= 150 else "V100-SXM2-32"
    return GPUS[name]


def assumed_machine(listing: NetworkFacts, ports: int, model: Gpu) -> MachineFacts:
    """Return a machine of as many GPUs as cards, a NIC beside each, and the GPU's links through switches."""
    indices = range(ports)
    linked = model.link_kind in ("nvlink", "xgmi")
    near = {(f"gpu{i}", f"nic{i}"): "PIX" for i in indices}
    return MachineFacts(
        file=listing.file,
        format=listing.format,
        gpus=tuple(Accelerator(i, numa=0) for i in indices),
        nics=tuple(Port(f"nic{i}", numa=0) for i in indices),
        links={(a, b): model.links for a in indices for b in indices if a < b} if linked else {},
        link_kind=model.link_kind if linked else "nvlink",
        switched=True,
        near=near | {(b, a): value for (a, b), value in near.items()},
    )


def with_reasons(one: "nx.DiGraph", listing: NetworkFacts, model: Gpu, said: bool) -> "nx.DiGraph":
    """Return an assumed machine that says so: how many GPUs, which, and how they are joined.

    Args:
        said: whether somebody said which GPU it is.
    """
    who, kind = short(listing.file), model.link_kind
    facts = one.graph
    facts["assumptions"] = [text for text in facts["assumptions"] if not text.startswith(f"{kind}: ")]
    facts["assumptions"].append(f"gpu: one for each HCA of a host; {who} shows no GPUs, a file of the machine would")
    if not said:
        facts["assumptions"].append(f"gpu: {model.name}; {who} names none, and its ports are as fast; say --gpu")
        facts["warnings"] = [f"assumes {model.name}: {who} names no GPU; say --gpu"]
    if f"{kind}.bandwidth" in facts["sources"]:
        facts["sources"][f"{kind}.bandwidth"] = model.source
    facts["assumptions"].append(f"pcie: each GPU shares a switch with its HCA; {who} shows no PCIe")
    if kind in ("nvlink", "xgmi"):
        facts["assumptions"].append(f"{kind}: all {model.links} links of a GPU through one switch; {who} shows none")
    return one


def _main(listing: NetworkFacts) -> dict[str, list[str]]:
    """Return host -> its cards in the part of the network that has most of them; hosts of other parts have none."""
    import networkx as nx

    graph = nx.Graph((one.a, one.b) for one in listing.cables)
    parts = list(nx.connected_components(graph))
    cards = {host: [f"{host}/{port.name}" for port in ports] for host, ports in listing.hosts.items()}
    every = {card for each in cards.values() for card in each}
    main: set[str] = max(parts, key=lambda part: len(part & every), default=set())
    found = {host: [card.partition("/")[2] for card in each if card in main] for host, each in cards.items()}
    return {host: each for host, each in found.items() if each}


def _matched(host: str, cards: Sequence[str], nics: Sequence[str]) -> dict[str, str]:
    """Return host/card -> NIC: by their names where all NICs are cards of the host, else in order."""
    by_name = {nic.rpartition("/")[2]: nic for nic in nics}
    if set(by_name) <= set(cards):
        return {f"{host}/{name}": nic for name, nic in by_name.items()}
    return {f"{host}/{card}": nic for card, nic in zip(cards, nics, strict=False)}


def _how(ends: Ends) -> str:
    """Say how cards were matched to NICs."""
    if all(card.rpartition("/")[2] == nic.rpartition("/")[2] for card, nic in ends.items()):
        return "the listing's cards are the NICs of the same name"
    return "the listing's cards are taken to be the machine's NICs in order; their names differ"


def _add(graph: "nx.DiGraph", one: "nx.DiGraph", host: str, first: int) -> int:
    """Add a machine at a host; return the first rank after its GPUs."""
    for name, data in one.nodes(data=True):
        placed = data | {"host": host}
        if "nic" in data:
            placed["nic"] = f"{host}/{data['nic']}"
        if data["kind"] == "gpu":
            placed["rank"] = first + int(data["rank"])
        graph.add_node(f"{host}/{name}", **placed)
    graph.add_edges_from((f"{host}/{a}", f"{host}/{b}", dict(link)) for a, b, link in one.edges(data=True))
    gpus: int = sum(kind == "gpu" for _, kind in one.nodes(data="kind"))
    return first + gpus


def _say_who_is_left(
    graph: "nx.DiGraph", listing: NetworkFacts, hosts: Mapping[str, list[str]], able: Mapping[str, list[str]]
) -> None:
    """Name the hosts that hold no machine, and those that differ from the others."""
    who = short(listing.file)
    counts = Counter(map(len, able.values()))
    usual = counts.most_common(1)[0][0]
    apart = [host for host in listing.hosts if host not in hosts]
    few = [host for host in hosts if host not in able]
    if apart:
        graph.graph["left_out"].append(f"{who}: hosts {listed(apart)}: not connected to the others")
    if few:
        graph.graph["left_out"].append(f"{who}: hosts {listed(few)}: fewer cards than the machine has NICs")
    odd = [f"{host} ({len(cards)})" for host, cards in able.items() if len(cards) != usual]
    if odd:
        graph.graph["notes"].append(f"{who}: most hosts have {usual} card{'s' * (usual != 1)}; others: {listed(odd)}")
