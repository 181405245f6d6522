"""What only jobs meet: the account that runs them, and the unit in which they run."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator, Sequence

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.packet_filter import find_possible_stops, make_reply_packet, make_tcp_packet
from fullmesh.diagnose.rules.decisions import (
    ACCOUNTS,
    ANYBODY,
    has_account_rule,
    list_odd_decisions,
)
from fullmesh.diagnose.rules.limits import LOCKED_LEAST
from fullmesh.diagnose.rules.quality import is_random_loss
from fullmesh.observed.ladder import JobProbe, LinkResult, LoginLimits
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.observed.survey import JobUnit
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.blocked import DATA_KINDS, SAID, describe_blocked_ports, describe_port_errors
from fullmesh.verify.node import FILES_PER_RANK

# Threads of a rank: ten over Gloo with OMP_NUM_THREADS=1 (measured), and DataLoader's workers and NCCL's proxies come
# on top.
THREADS_PER_RANK = 64


AMPLE = {"nofile": "1048576", "memlock": "unlimited", "nproc": "unlimited"}


def get_job_probe(look: ClusterEvidence, name: str) -> JobProbe | None:
    """What a node found as the account of jobs; None where it was not tried."""
    return look.seen.nodes.get(name, {}).get("links", {}).get("as_job")


def is_return_blocked(look: ClusterEvidence, name: str, peer: str) -> bool:
    """Whether what stops an account stops its answers, too: its listeners cannot be reached then.

    The listeners of the probe are not the jobs', so this is by the kernel's decision, or by the rules on paper.
    """
    for way in list_odd_decisions(look, name):
        of_account = way["uid"] != ANYBODY and way["direction"] == "answer"
        if of_account and way["peer"] == look.address(peer):
            return True
    card = look.cluster_card(name)
    port = (look.port_range(name) or KERNEL_RANGE).first
    asked = make_tcp_packet(look.address(peer), look.address(name), port, card)
    return any(
        has_account_rule(look, name, stop.table)
        for stop in find_possible_stops(look.ruleset(name), make_reply_packet(asked, port))
    )


def rule_job_account(look: ClusterEvidence) -> Iterator[Finding]:
    """Connections come through for the probe, and not for the account of jobs."""
    for name in look.nodes:
        said = get_job_probe(look, name)
        if not said:
            continue
        open_here = {(r["node"], r["port"]) for r in look.records(name) if r["verdict"] == "open"}
        shut: dict[str, list[LinkResult]] = {}
        for record in said["links"]:
            there = (record["node"], record["port"]) in open_here and record["node"] in look.nodes
            if there and not is_random_loss(look, name, record["node"]):
                shut.setdefault(record["node"], []).append(record)
        if not shut:
            continue
        peers = sorted(shut)
        held = shut[peers[0]]
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if is_return_blocked(look, name, peer)]
        data = sum(record["kind"] in DATA_KINDS for record in held)
        yield Finding(
            "DG-182",
            "L2",
            f"{name} -> {join_names(peers)} {SAID[held[0]['verdict']]} for {who}, who runs the jobs there; for the"
            f" probe's own account the same ports are open{'; its answers are stopped as well' if back else ''}",
            node=name,
            peer=join_names(peers),
            port=describe_blocked_ports(look.seen, held, data),
            direction=f"{name} -> {join_names(peers)}",
            seen=f"as {who}: {describe_port_errors(held)}",
            expected="open for every account",
            fix=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}'; ip rule | grep uidrange",
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(r["kind"]) for records in shut.values() for r in records})),
        )


def rule_probe_only_block(look: ClusterEvidence) -> Iterator[Finding]:
    """Connections come through for the account of jobs, and not for the probe."""
    for name in look.nodes:
        said = get_job_probe(look, name)
        if not said:
            continue
        past = [
            record
            for record in said.get("past", [])
            if record["node"] in look.nodes and not is_random_loss(look, name, record["node"])
        ]
        if not past:
            continue
        peers = sorted({record["node"] for record in past})
        held = [record for record in past if record["node"] == peers[0]]
        shut = [r for r in look.records(name) if r["node"] == peers[0] and r["verdict"] != "open"]
        data = sum(record["kind"] in DATA_KINDS for record in shut)
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if is_return_blocked(look, name, peer)]
        yield Finding(
            "DG-184",
            "L2",
            f"{name} -> {join_names(peers)} is shut for the account of the probe alone: {who}, who runs the jobs there,"
            " gets through",
            node=name,
            peer=join_names(peers),
            port=describe_blocked_ports(look.seen, shut, data),
            direction=f"{name} -> {join_names(peers)}",
            seen=f"as {who}: {describe_port_errors(held)}",
            expected="open for every account",
            fix=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}'; ip rule | grep uidrange",
            severity=WARNING,
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(record["kind"]) for record in past})),
        )


def is_in_networks(address: str, networks: Sequence[str]) -> bool:
    """Whether an address is in one of the networks, as systemctl show prints them."""
    here = ipaddress.ip_address(address)
    return any(
        here in net
        for one in networks
        if (net := ipaddress.ip_network(one, strict=False)).version == here.version
    )


def list_unit_restrictions(
    look: ClusterEvidence, name: str, unit: JobUnit
) -> Iterator[tuple[str, str, list[str]]]:
    """What of a unit keeps jobs from their peers: in words, the setting, and the peers; or from opening files."""
    peers = [peer for peer in look.peers(name) if look.address(peer)]
    if unit["own_network"]:
        yield "have a network of their own, with no card in it", "PrivateNetwork=yes", peers
    family = "AF_INET6" if look.plan["family"] == "ipv6" else "AF_INET"
    words = unit["families"].split()
    shut = words and words[0].startswith("~")
    named = {word.lstrip("~") for word in words} - {""}
    if named and (family in named) == bool(shut):
        said = f"RestrictAddressFamilies={unit['families']}"
        yield f"may open no socket of {family}", said, peers
    denied = [
        peer
        for peer in peers
        if is_in_networks(look.address(peer), unit["deny"])
        and not is_in_networks(look.address(peer), unit["allow"])
    ]
    if denied:
        yield (
            "may not exchange packets with their peers",
            f"IPAddressDeny={' '.join(unit['deny'])}",
            denied,
        )
    need = FILES_PER_RANK * int(look.plan["world_size"])
    if 0 <= unit["nofile"] < need:
        yield (
            f"may open {unit['nofile']} files, {need} are needed",
            f"LimitNOFILE={unit['nofile']}",
            [],
        )


def rule_job_unit(look: ClusterEvidence) -> Iterator[Finding]:
    """The unit that jobs run in keeps them from the peers, or holds them to too little."""
    for name in look.nodes:
        unit = look.survey(name).get("job_unit")
        if not unit:
            continue
        for what, setting, peers in list_unit_restrictions(look, name, unit):
            drop_ins = join_names(unit["drop_ins"])
            yield Finding(
                "DG-183",
                "L1",
                f"jobs that run as the unit fullmesh-job@ on {name} {what}; the probe is not in that unit",
                node=name,
                peer=join_names(peers),
                direction=f"{name} <-> {join_names(peers)}" if peers else "",
                seen=setting + (f" ({drop_ins})" if drop_ins else ""),
                expected="as Fullmesh wrote the unit",
                fix=f"on {name}: systemctl cat fullmesh-job@; take it out of its drop-ins, systemctl daemon-reload",
            )


def list_low_limits(
    look: ClusterEvidence, name: str, login: LoginLimits
) -> Iterator[tuple[str, str, str]]:
    """What a login is held to that jobs need more of, and the probe has enough of: in words, seen, expected."""
    own = look.survey(name).get("limits", {})
    files = FILES_PER_RANK * int(look.plan["world_size"])
    if 0 <= login["nofile"] < files <= limit_to_number(own.get("nofile")):
        yield f"may open {login['nofile']} files", f"nofile {login['nofile']}", f"nofile {files}"
    active = any(port["state"] == "ACTIVE" for port in look.survey(name).get("rdma", []))
    if active and 0 <= login["memlock"] < LOCKED_LEAST <= limit_to_number(own.get("memlock")):
        seen = f"memlock {login['memlock'] // 1024} KiB"
        yield f"may lock {login['memlock'] // 1024} KiB of memory (RDMA)", seen, "memlock unlimited"
    threads = THREADS_PER_RANK * int(look.plan["nodes"][name]["local_ranks"])
    if 0 <= login["processes"] < threads:
        yield (
            f"may have {login['processes']} processes and threads",
            f"nproc {login['processes']}",
            f"nproc {threads}",
        )


def limit_to_number(limit: int | None) -> float:
    """A limit as a number that others are compared with: none is endless."""
    return math.inf if limit is None or limit < 0 else limit


def rule_login_limits(look: ClusterEvidence) -> Iterator[Finding]:
    """Jobs that are started by a login of their account get too little."""
    for name in look.nodes:
        said = get_job_probe(look, name)
        if not said or "login" not in said:
            continue
        held = list(list_low_limits(look, name, said["login"]))
        if not held:
            continue
        account = said["account"]
        # more than this plan needs: the line holds for whatever else the account does
        kinds = [expected.split()[0] for _, _, expected in held]
        lines = " ".join(f"'{account} - {kind} {AMPLE[kind]}'" for kind in kinds)
        yield Finding(
            "DG-185",
            "L1",
            f"a login of {account}, who runs the jobs on {name}, {join_names([what for what, _, _ in held])}: what is"
            " started by ssh gets too little",
            node=name,
            seen=", ".join(seen for _, seen, _ in held),
            expected=f"at least {', '.join(expected for _, _, expected in held)}",
            fix=f"on {name}: {lines} in a file in /etc/security/limits.d, then log in anew",
            # a unit of jobs has limits of its own, and nobody need ever log in
            severity=WARNING if look.survey(name).get("job_unit") else ERROR,
        )


def rule_container_network(look: ClusterEvidence) -> Iterator[Finding]:
    """Ranks run in the network of a container that peers cannot connect to, or that does not reach them."""
    for name in look.nodes:
        for inner in look.seen.nodes.get(name, {}).get("links", {}).get("networks", []):
            who = f"pid {inner['pid']}: {inner['command'][:80]}"
            inside = join_names(inner["addresses"]) or "no address"
            shut = sorted({one["node"] for one in inner["links"]})
            hidden = inner["seen_as"] and inner["seen_as"] not in inner["addresses"]
            if hidden:
                what = (
                    f"is hidden behind {inner['seen_as']}: peers cannot connect to {inside},"
                    " which the ranks announce"
                )
                peers = look.peers(name)
            elif shut:
                what, peers = f"does not reach {join_names(shut)}, which {name} itself does", shut
            else:
                continue
            yield Finding(
                "DG-186",
                "L2",
                f"the network of the container in which ranks run on {name} {what}",
                node=name,
                peer=join_names(peers),
                direction=f"{join_names(peers)} -> {name}"
                if hidden
                else f"{name} -> {join_names(peers)}",
                seen=f"{inside} ({who})",
                expected="the node's own network, or an address that peers reach",
                fix=f"on {name}: start the container with --network=host, or give it an address of the cluster network",
            )


RULES = (
    rule_job_account,
    rule_probe_only_block,
    rule_job_unit,
    rule_login_limits,
    rule_container_network,
)
