"""EFA on the nodes: rules from what module_utils/fullmesh/facts/efa.py observed to findings.

The line that everybody meets, ``libnccl-net.so: cannot open shared object file``, is harmless without EFA (NCCL looks
for a plugin, finds none and takes its own sockets or InfiniBand code, plugin_open.cc) and the cause of slowness with
it: then NCCL talks TCP over a device that could do several hundred Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fullmesh.observed.survey import EfaSurvey, NcclPlugin
from fullmesh.result.findings import WARNING, Finding, join_names

CODES: dict[str, str] = {
    "EF-101": "an EFA device without its driver",
    "EF-102": "EFA without libfabric",
    "EF-103": "libfabric does not find the EFA device",
    "EF-104": "EFA without NCCL's plugin: NCCL is slow",
    "EF-105": "NCCL's plugin cannot be loaded",
    "EF-106": "some nodes have EFA and some do not",
    "EF-107": "EFA software differs between the nodes",
    "EF-108": "the job's environment keeps NCCL off EFA",
    "EF-109": "harmless: no plugin for NCCL, and no EFA to use it with",
}
RUNG: Final = "L1"
INSTALL = "Install Amazon's EFA installer (1.39 or newer brings the plugin), and reboot where it brought a driver"


def has_efa_device(seen: EfaSurvey) -> bool:
    """Whether the node has an EFA device, with a driver or without."""
    return bool(seen["pci"] or seen["verbs"])


def check_efa(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    """What is wrong, by node; [] for nodes without EFA."""
    having = {node: own for node, own in seen.items() if has_efa_device(own)}
    found = [one for node, own in having.items() for one in _check_efa_node(node, own)]
    return found + _check_mixed_nodes(seen) + _check_efa_versions(having)


def _check_efa_node(node: str, own: EfaSurvey) -> list[Finding]:
    """The first thing that is wrong on a node: driver, libfabric and plugin stand on each other."""
    bare = [one["slot"] for one in own["pci"] if not one["driver"]]
    fabric = own["libfabric"]
    if bare:
        cause = f"{node}: no driver has the EFA device {join_names(bare)}"
        fix = f"modprobe efa, and read `dmesg | grep efa`. {INSTALL}"
        return [_make_efa_finding("EF-101", node, cause, ", ".join(bare), fix)]
    if not fabric.get("fi_info"):
        cause = f"{node}: there is an EFA device, and no libfabric (fi_info) that could use it"
        return [_make_efa_finding("EF-102", node, cause, "", INSTALL)]
    if not fabric.get("domains"):
        said = fabric.get("said") or f"exit status {fabric.get('rc')}"
        cause = f"{node}: {fabric['fi_info']} -p efa finds no provider: {said}"
        fix = "fi_info -p efa; ls -l /dev/infiniband; a container needs --device=/dev/infiniband/uverbs*"
        return [_make_efa_finding("EF-103", node, cause, said, fix)]
    return _check_efa_environment(node, own["environment"]) or _check_efa_plugin(
        node, own["plugin"]
    )


def _make_efa_finding(code: str, node: str, cause: str, seen: str, fix: str) -> Finding:
    return Finding(code, RUNG, cause, node=node, seen=seen, fix=fix)


def _check_efa_plugin(node: str, plugin: NcclPlugin) -> list[Finding]:
    error = plugin.get("error", "")
    if plugin["path"] and not error:
        return []
    if plugin["path"]:
        cause = f"{node}: NCCL's plugin {plugin['path']} cannot be loaded: {error}"
        fix = f"ldd {plugin['path']}; plugin, libfabric and CUDA must fit each other"
        return [_make_efa_finding("EF-105", node, cause, error, fix)]
    cause = f"{node}: there is EFA, and NCCL finds no libnccl-net.so, so it talks TCP: far slower"
    if plugin["elsewhere"]:
        place = plugin["elsewhere"]
        fix = f"echo {place.rpartition('/')[0]} > /etc/ld.so.conf.d/aws-ofi-nccl.conf; ldconfig"
        return [
            _make_efa_finding("EF-104", node, f"{cause} ({place} is out of its sight)", place, fix)
        ]
    return [_make_efa_finding("EF-104", node, cause, "", INSTALL)]


def _check_efa_environment(node: str, env: Mapping[str, str]) -> list[Finding]:
    """Variables that switch EFA off although everything is there."""
    off = {
        "NCCL_NET_PLUGIN": env.get("NCCL_NET_PLUGIN", "").lower() == "none",
        "NCCL_NET": env.get("NCCL_NET", "").lower() in ("socket", "ib"),
        "FI_PROVIDER": bool(env.get("FI_PROVIDER")) and "efa" not in env["FI_PROVIDER"].lower(),
    }
    return [
        _make_efa_finding(
            "EF-108",
            node,
            f"{node}: {name}={env[name]} in the job's environment keeps NCCL off EFA",
            f"{name}={env[name]}",
            f"Take {name} out of the job's environment",
        )
        for name, is_off in off.items()
        if is_off
    ]


def _check_mixed_nodes(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    having = [node for node, own in seen.items() if has_efa_device(own)]
    lacking = [node for node in seen if node not in having]
    if not having or not lacking:
        return []
    cause = f"{join_names(having)} have EFA and {join_names(lacking)} have none; NCCL needs one kind of network"
    fix = "Launch all nodes as one instance type with EFA, or set NCCL_NET_PLUGIN=none on all"
    return [
        Finding("EF-106", RUNG, cause, node=lacking[0], peer=", ".join(having), fix=fix),
    ]


def _check_efa_versions(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    """Different versions mostly work, and are the first question of every support case: a warning."""
    found = []
    versions = {
        "libfabric": {node: own["libfabric"].get("version", "") for node, own in seen.items()},
        "the efa driver": {node: own["driver_version"] for node, own in seen.items()},
    }
    for name, said in versions.items():
        known = {node: version for node, version in said.items() if version}
        if len(set(known.values())) > 1:
            words = ", ".join(f"{node}: {one}" for node, one in known.items())
            cause = f"{name} differs between the nodes ({words})"
            fix = "Install one version of Amazon's EFA installer on all nodes"
            node = next(iter(known))
            found.append(
                Finding("EF-107", RUNG, cause, node=node, seen=words, fix=fix, severity=WARNING)
            )
    return found


def explain_missing_plugin(seen: EfaSurvey) -> tuple[str, str]:
    """What ``libnccl-net.so: cannot open shared object file`` means on this node.

    Returns:
        A code and a sentence, or two blanks where the plugin is there.
    """
    if seen["plugin"]["path"]:
        return "", ""
    if has_efa_device(seen):
        return "EF-104", "NCCL's plugin for EFA is missing: this is why NCCL is slow"
    return "EF-109", "NCCL found no network plugin, which is right without EFA: nothing to do"
