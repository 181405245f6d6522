"""Turn the EFA survey of the nodes (module_utils/fullmesh/facts/efa.py) into findings.

The well-known line ``libnccl-net.so: cannot open shared object file`` is harmless without EFA: NCCL looks for a
plugin, finds none and uses its own sockets or InfiniBand code (plugin_open.cc). With EFA, it explains slow jobs: NCCL
then uses TCP over a device that could reach several hundred Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fullmesh.observed.survey import EfaSurvey, NcclPlugin
from fullmesh.result.findings import WARNING, Finding, join_names

CHECK: Final = "L1"
INSTALL = "Run Amazon's EFA installer (1.39 or newer includes the plugin), and reboot if it installed a driver"


def has_efa_device(seen: EfaSurvey) -> bool:
    """Return whether the node has an EFA device, with or without a driver."""
    return bool(seen["pci"] or seen["verbs"])


def check_efa(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    """Return the findings of all nodes with EFA."""
    having = {node: own for node, own in seen.items() if has_efa_device(own)}
    found = [one for node, own in having.items() for one in _check_efa_node(node, own)]
    return found + _check_mixed_nodes(seen) + _check_efa_versions(having)


def _check_efa_node(node: str, own: EfaSurvey) -> list[Finding]:
    """Return the first problem of a node. Driver, libfabric and plugin depend on each other in this order."""
    bare = [one["slot"] for one in own["pci"] if not one["driver"]]
    fabric = own["libfabric"]
    if bare:
        cause = f"{node}: the EFA device {join_names(bare)} has no driver"
        fix = f"modprobe efa. {INSTALL}"
        check = f"on {node}: dmesg | grep efa"
        return [
            _make_efa_finding("EF-101", node, cause, seen=", ".join(bare), fix=fix, check=check)
        ]
    if not fabric.get("fi_info"):
        cause = f"{node}: it has an EFA device but no libfabric (fi_info)"
        return [_make_efa_finding("EF-102", node, cause, fix=INSTALL)]
    if not fabric.get("domains"):
        said = fabric.get("said") or f"exit status {fabric.get('rc')}"
        cause = f"{node}: {fabric['fi_info']} -p efa finds no provider: {said}"
        fix = "Start a container with --device=/dev/infiniband/uverbs*"
        check = f"on {node}: fi_info -p efa; ls -l /dev/infiniband"
        return [_make_efa_finding("EF-103", node, cause, seen=said, fix=fix, check=check)]
    return _check_efa_environment(node, own["environment"]) or _check_efa_plugin(
        node, own["plugin"]
    )


def _make_efa_finding(code: str, node: str, cause: str, **more: Any) -> Finding:
    return Finding(code, CHECK, cause, node=node, **more)


def _check_efa_plugin(node: str, plugin: NcclPlugin) -> list[Finding]:
    error = plugin.get("error", "")
    if plugin["path"] and not error:
        return []
    if plugin["path"]:
        cause = f"{node}: NCCL's plugin {plugin['path']} cannot be loaded: {error}"
        fix = "Install versions of plugin, libfabric and CUDA that work together"
        check = f"on {node}: ldd {plugin['path']}"
        return [_make_efa_finding("EF-105", node, cause, seen=error, fix=fix, check=check)]
    cause = (
        f"{node}: it has EFA, but NCCL finds no libnccl-net.so, so it uses TCP, which is far slower"
    )
    if plugin["elsewhere"]:
        place = plugin["elsewhere"]
        fix = f"echo {place.rpartition('/')[0]} > /etc/ld.so.conf.d/aws-ofi-nccl.conf; ldconfig"
        return [
            _make_efa_finding(
                "EF-104", node, f"{cause} ({place} is not in its search path)", seen=place, fix=fix
            )
        ]
    return [_make_efa_finding("EF-104", node, cause, fix=INSTALL)]


def _check_efa_environment(node: str, env: Mapping[str, str]) -> list[Finding]:
    """Find variables that switch EFA off although a node supports it."""
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
            seen=f"{name}={env[name]}",
            fix=f"Remove {name} from the job's environment",
        )
        for name, is_off in off.items()
        if is_off
    ]


def _check_mixed_nodes(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    having = [node for node, own in seen.items() if has_efa_device(own)]
    lacking = [node for node in seen if node not in having]
    if not having or not lacking:
        return []
    cause = f"{join_names(having)} have EFA and {join_names(lacking)} do not. NCCL needs the same network on all nodes"
    fix = "Use one EFA-capable instance type for all nodes, or set NCCL_NET_PLUGIN=none on all"
    return [
        Finding("EF-106", CHECK, cause, node=lacking[0], peer=", ".join(having), fix=fix),
    ]


def _check_efa_versions(seen: Mapping[str, EfaSurvey]) -> list[Finding]:
    """Warn about different versions. They mostly work, but support asks about them first."""
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
                Finding("EF-107", CHECK, cause, node=node, seen=words, fix=fix, severity=WARNING)
            )
    return found


def explain_missing_plugin(seen: EfaSurvey) -> tuple[str, str]:
    """Explain ``libnccl-net.so: cannot open shared object file`` on this node.

    Returns:
        A code and a sentence, or two empty texts if the plugin exists.
    """
    if seen["plugin"]["path"]:
        return "", ""
    if has_efa_device(seen):
        return "EF-104", "NCCL's plugin for EFA is missing: this is why NCCL is slow"
    return "EF-109", "NCCL found no network plugin, which is normal without EFA: nothing to do"
