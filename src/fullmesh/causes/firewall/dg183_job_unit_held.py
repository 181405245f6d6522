"""The systemd unit that runs jobs cuts them off from their peers, or limits them too much

systemd can filter a unit's packets (IPAddressDeny=), remove its network (PrivateNetwork=), forbid
address families and set limits. The probe runs outside the unit, so its connections work. Fullmesh
reads the settings that a job gets, with all drop-ins, from systemctl show.

**Prove:** systemctl show fullmesh-job@x -p IPAddressDeny -p PrivateNetwork -p
RestrictAddressFamilies -p LimitNOFILE

**Fix:** Find the drop-in with systemctl cat fullmesh-job@, remove the setting, then run systemctl
daemon-reload.

**Source:** systemd.resource-control(5), systemd.exec(5)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.survey import JobUnit
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.node import FILES_PER_RANK


def is_in_networks(address: str, networks: Sequence[str]) -> bool:
    """Return whether an address is in one of the networks, as systemctl show prints them."""
    here = ipaddress.ip_address(address)
    return any(
        here in net
        for one in networks
        if (net := ipaddress.ip_network(one, strict=False)).version == here.version
    )


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
    need = FILES_PER_RANK * int(evidence.plan["world_size"])
    if 0 <= unit["nofile"] < need:
        yield (
            f"may open {unit['nofile']} files, {need} are needed",
            f"LimitNOFILE={unit['nofile']}",
            [],
        )


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
    cases=(CauseCase("job-unit", "IPAddressDeny=any in a drop-in of fullmesh-job@"),),
)
