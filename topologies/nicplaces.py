"""A machine with another number of NICs: fewer are shared by GPUs, more hang where their GPUs do.

GPU i of G of a host takes NIC i*n//G of n. A NIC that GPUs share, where each of them was cabled to one directly, hangs
on a PCIe switch with them; where GPUs forward for each other, it hangs on the first.
"""

from typing import Any, NamedTuple

import networkx as nx

from topologies.links import PCIE_SWITCH_LINK


class Place(NamedTuple):
    """Where a NIC hangs: the nodes that it sends to and is sent to from, and the links between."""

    out: dict[str, dict[str, Any]]
    into: dict[str, dict[str, Any]]


def with_nics(one: nx.DiGraph, count: int) -> nx.DiGraph:
    """Return a machine whose hosts have so many NICs; the same where they have.

    Raises:
        ValueError: its GPUs cannot share them equally, or there are more than GPUs.
    """
    one = copied(one)
    had, gpus = _by_host(one, "nic"), _by_host(one, "gpu")
    changed = [host for host in gpus if len(had.get(host, ())) != count]
    for host in changed:
        where = f"nics={count}: a {'machine' if host is None else 'host'} of {one.graph['name']}"
        if len(gpus[host]) % count:
            more = "; a GPU takes one NIC: faster ones are gbit=800" * (count > len(gpus[host]))
            raise ValueError(f"{where} has {len(gpus[host])} GPUs, which cannot share them equally, or are fewer{more}")
        if host not in had:
            raise ValueError(f"{where} has no NIC whose place others could take")
        _rehang(one, gpus[host], had[host], count)
    if changed:
        before = len(had[changed[0]])
        how = "GPU i of G takes NIC i*n//G of n"
        how += ", and each hangs where its GPUs do" if count > before else ", on the PCIe switch of its GPUs"
        one.graph["assumptions"].append(f"nic: {count} a host as asked for, in place of {before}; {how}")
    return one


def copied(one: nx.DiGraph) -> nx.DiGraph:
    """Return a copy of a machine with sources and assumptions of its own."""
    copy = one.copy()
    copy.graph |= {"sources": dict(one.graph["sources"]), "assumptions": list(one.graph["assumptions"])}
    return copy


def host_of(one: nx.DiGraph, node: str) -> dict[str, str]:
    """Return the attribute that puts another node on the host of this one; none where it names none."""
    return {"host": one.nodes[node]["host"]} if "host" in one.nodes[node] else {}


def _rehang(one: nx.DiGraph, gpus: list[str], had: list[str], count: int) -> None:
    """Take the NICs of a host away, and hang others in the places of those of their GPUs."""
    own = {gpu: one.nodes[gpu].get("nic", had[i * len(had) // len(gpus)]) for i, gpu in enumerate(gpus)}
    places = {gpu: _place(one, gpu, own[gpu]) for gpu in gpus}
    direct = {gpu: gpu in one.succ[own[gpu]] for gpu in gpus}
    stem, data = had[0].rstrip("0123456789"), dict(one.nodes[had[0]])
    one.remove_nodes_from(had)
    for k in range(count):
        nic, users = f"{stem}{k}", gpus[k * len(gpus) // count : (k + 1) * len(gpus) // count]
        one.add_node(nic, **data)
        for gpu in users:
            one.nodes[gpu]["nic"] = nic
        if len(users) > 1 and all(direct[gpu] for gpu in users):
            _share(one, nic, users, places)
        else:
            forwards = any(gpu in places[gpu].into for gpu in users)
            _hang(one, nic, users[:1] if forwards else users, places)


def _place(one: nx.DiGraph, gpu: str, nic: str) -> Place:
    """Return where a NIC hangs, as seen from a GPU that takes it: on itself, where it is cabled to a GPU."""
    out = {node: dict(link) for node, link in one.succ[nic].items()}
    into = {node: dict(link) for node, link in one.pred[nic].items()}
    found = []
    for side in (out, into):
        direct = [node for node in side if one.nodes[node]["kind"] == "gpu"]
        here = {gpu: side[gpu if gpu in side else direct[0]]} if direct else {}
        found.append(here | {node: link for node, link in side.items() if node not in direct})
    return Place(*found)


def _share(one: nx.DiGraph, nic: str, users: list[str], places: dict[str, Place]) -> None:
    """Put a PCIe switch between a NIC and the GPUs that were each cabled to one."""
    pcie = f"{nic}/pcie"
    one.add_node(pcie, kind="pcie", **host_of(one, nic))
    for gpu in users:
        one.add_edge(gpu, pcie, **{**places[gpu].into[gpu], "latency": PCIE_SWITCH_LINK.latency})
        one.add_edge(pcie, gpu, **{**places[gpu].out[gpu], "latency": PCIE_SWITCH_LINK.latency})
    one.add_edge(pcie, nic, **{**places[users[0]].into[users[0]], "latency": 0.0})
    one.add_edge(nic, pcie, **{**places[users[0]].out[users[0]], "latency": 0.0})
    reason = PCIE_SWITCH_LINK.of("pcie.latency of GPUs that share a NIC")
    if reason not in one.graph["assumptions"]:
        one.graph["assumptions"].append(reason)


def _hang(one: nx.DiGraph, nic: str, users: list[str], places: dict[str, Place]) -> None:
    """Hang a NIC where that of its first GPU was, and also where others were whose GPUs do not reach it from there."""
    for gpu in users:
        if _reaches(one, gpu, nic):
            continue
        one.add_edges_from((nic, node, link) for node, link in places[gpu].out.items())
        one.add_edges_from((node, nic, link) for node, link in places[gpu].into.items())


def _reaches(one: nx.DiGraph, gpu: str, nic: str) -> bool:
    """Tell whether a GPU reaches a NIC without passing a GPU, an NVSwitch or another NIC."""
    seen, front = {gpu}, [gpu]
    while front:
        for node in one.succ[front.pop()]:
            if node == nic:
                return True
            if node not in seen and one.nodes[node]["kind"] in ("pcie", "cpu"):
                seen.add(node)
                front.append(node)
    return False


def _by_host(one: nx.DiGraph, kind: str) -> dict[str | None, list[str]]:
    """Return the nodes of a kind on each host; where none is named, the machine is one."""
    found: dict[str | None, list[str]] = {}
    for node, data in one.nodes(data=True):
        if data["kind"] == kind:
            found.setdefault(data.get("host"), []).append(node)
    return found
