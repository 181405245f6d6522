"""The systemd unit that runs jobs cuts them off from their peers, or keeps them from starting

systemd can filter a unit's packets (IPAddressDeny=), remove its network (PrivateNetwork=), forbid
address families and system calls, hide folders, and set limits. A drop-in can also name a file or
an account that does not exist. The probe runs outside the unit, so its connections work. Fullmesh
reads the settings that a job gets, with all drop-ins, from systemctl show. It does not start the unit.

**Prove:** systemctl cat fullmesh-job@ and systemctl show fullmesh-job@x

**Fix:** Find the drop-in with systemctl cat fullmesh-job@, remove the setting, then run systemctl
daemon-reload.

**Source:** systemd.resource-control(5), systemd.exec(5)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.foreign_text import parse_decimal
from fullmesh.observed.survey import JobUnit
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.node import count_needed_files


def is_in_networks(address: str, networks: Sequence[str]) -> bool:
    """Return whether an address is in one of the networks, as systemctl show prints them."""
    here = ipaddress.ip_address(address)
    return any(
        here in net
        for one in networks
        if (net := ipaddress.ip_network(one, strict=False)).version == here.version
    )


# Folders that every job uses, and those of them that it writes to.
USED = ("/opt/fullmesh", "/etc/fullmesh", "/usr", "/etc", "/dev/shm", "/tmp")  # noqa: S108 (names on nodes)
WRITTEN = ("/dev/shm", "/tmp")  # noqa: S108
# The least that a job needs: threads, and bytes.
LEAST = {
    **{"LimitNPROC": 64, "TasksMax": 64, "LimitAS": 4 << 30, "LimitDATA": 1 << 30},
    **{"LimitFSIZE": 1 << 20, "LimitCPU": 3600, "LimitSTACK": 1 << 18},
    **{"MemoryMax": 512 << 20, "MemoryHigh": 512 << 20},
}
# The launcher reads the variables of the plan itself.
OF_A_JOB = ("FULLMESH_SCRIPT", "FULLMESH_OPTIONS", "FULLMESH_ARGS")
HOMES = ("/home", "/root", "/run/user")


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of the folders, or in one of them."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)


def list_hidden_paths(unit: JobUnit) -> Iterator[tuple[str, str]]:
    """Yield the folders and scripts that a unit hides or makes read-only, with the setting."""
    settings, scripts = unit.get("settings", {}), unit.get("scripts", [])
    for name, needed in (
        ("InaccessiblePaths", (*USED, *scripts)),
        ("TemporaryFileSystem", (*USED[:4], *scripts)),
        ("NoExecPaths", USED[:3]),
        ("ReadOnlyPaths", WRITTEN),
    ):
        folders = [one.lstrip("-+").partition(":")[0] for one in settings.get(name, "").split()]
        for path in needed:
            if is_below(path, folders):
                yield path, f"{name}={settings[name]}"
    if settings.get("ProtectSystem") == "strict" and settings.get("PrivateTmp") != "yes":
        yield WRITTEN[1], "ProtectSystem=strict"
    for path in scripts:
        if settings.get("ProtectHome") in ("yes", "tmpfs") and is_below(path, HOMES):
            yield path, f"ProtectHome={settings['ProtectHome']}"


def list_start_hindrances(
    evidence: ClusterEvidence, name: str, unit: JobUnit
) -> Iterator[tuple[str, str]]:
    """Yield a unit's settings that keep jobs from starting: a description and the setting."""
    settings = unit.get("settings", {})
    if unit.get("load", "loaded") != "loaded":
        yield "do not start, because systemd cannot load it", f"LoadState={unit.get('load')}"
    for one in unit.get("missing", []):
        yield "do not start, because it names something that the node does not have", one
    if unit.get("blocked"):
        calls = join_names(unit.get("blocked", []))
        yield f"may not use the system calls {calls}", "SystemCallFilter="
    hidden = dict(reversed(list(list_hidden_paths(unit))))
    for path, setting in list(hidden.items())[:1]:
        yield f"cannot use {path}", setting
    for one, least in LEAST.items():
        number = parse_decimal(settings.get(one, ""))
        if number is not None and number < least:
            yield f"have less than {least} of {one}", f"{one}={number}"
    if parse_decimal(settings.get("UMask", "0")[1:2]):
        yield "cannot read files that they write", f"UMask={settings['UMask']}"
    if settings.get("RootDirectory") or settings.get("NetworkNamespacePath"):
        held = next(one for one in ("RootDirectory", "NetworkNamespacePath") if one in settings)
        yield "run in another root directory or network namespace", f"{held}={settings[held]}"
    interfaces = settings.get("RestrictNetworkInterfaces", "")
    interface = evidence.get_cluster_interface(name)
    if (
        interface
        and interfaces
        and (interface in interfaces.lstrip("~").split()) == interfaces.startswith("~")
    ):
        yield f"cannot use {interface}", f"RestrictNetworkInterfaces={interfaces}"
    if settings.get("SocketBindDeny"):
        yield "may not listen on ports", f"SocketBindDeny={settings['SocketBindDeny']}"
    lost = [one for one in settings.get("UnsetEnvironment", "").split() if one in OF_A_JOB]
    if lost:
        yield f"do not get {join_names(lost)}", f"UnsetEnvironment={' '.join(lost)}"
    runtime = settings.get("RuntimeMaxUSec", "")
    if runtime and not set(runtime) & set("hdwy"):
        yield f"end after {runtime}", f"RuntimeMaxSec={runtime}"


def list_unit_restrictions(
    evidence: ClusterEvidence, name: str, unit: JobUnit
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield a unit's restrictions that hinder jobs: a description, the setting, and the peers cut off."""
    peers = [peer for peer in evidence.peers(name) if evidence.address(peer)]
    if unit["own_network"]:
        yield "have a network of their own, with no interface in it", "PrivateNetwork=yes", peers
    family = "AF_INET6" if evidence.plan["family"] == "ipv6" else "AF_INET"
    words = unit["families"].split()
    shut = words and words[0].startswith("~")
    named = {word.lstrip("~") for word in words} - {""}
    if named and (family in named) == bool(shut):
        said = f"RestrictAddressFamilies={unit['families']}"
        yield f"may open no socket of {family}", said, peers
    denied = [
        peer
        for peer in peers
        if is_in_networks(evidence.address(peer), unit["deny"])
        and not is_in_networks(evidence.address(peer), unit["allow"])
    ]
    if denied:
        yield (
            "cannot exchange packets with their peers",
            f"IPAddressDeny={' '.join(unit['deny'])}",
            denied,
        )
    need = count_needed_files(int(evidence.plan["world_size"]))
    if 0 <= unit["nofile"] < need:
        yield (
            f"may open {unit['nofile']} files, {need} are needed",
            f"LimitNOFILE={unit['nofile']}",
            [],
        )
    for what, setting in list_start_hindrances(evidence, name, unit):
        yield what, setting, []


def rule_job_unit(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find units of jobs that cut them off from peers or limit them too much."""
    for name in evidence.nodes:
        unit = evidence.survey(name).get("job_unit")
        if not unit:
            continue
        for what, setting, peers in list_unit_restrictions(evidence, name, unit):
            drop_ins = join_names(unit["drop_ins"])
            yield Finding(
                "DG-183",
                "L1",
                f"jobs that run as the unit fullmesh-job@ on {name} {what}. The probe is not in that unit",
                node=name,
                peer=join_names(peers),
                direction=f"{name} <-> {join_names(peers)}" if peers else "",
                seen=setting + (f" ({drop_ins})" if drop_ins else ""),
                expected="as Fullmesh wrote the unit",
                fix=f"on {name}: systemctl cat fullmesh-job@, remove the setting from its drop-ins, then"
                " systemctl daemon-reload",
            )


CAUSE = Cause(
    "DG-183",
    __doc__,
    find=rule_job_unit,
    needs=("job_unit",),
    weight=270,
    explains=(Explains(("VC-325",), has_same_node),),
    hidden=True,
    cases=(CauseCase("job-unit", "IPAddressDeny=any in a drop-in of fullmesh-job@"),),
)
