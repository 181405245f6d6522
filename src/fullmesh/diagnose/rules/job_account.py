"""What only jobs meet: the account that runs them, and the unit in which they run."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from fullmesh.diagnose.model import Look
from fullmesh.diagnose.packet_filter import answer, suspects, tcp
from fullmesh.diagnose.rules.decisions import ACCOUNTS, ANYBODY, by_account, ways
from fullmesh.diagnose.rules.quality import by_chance
from fullmesh.observed.ladder import JobProbe, Pair
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.observed.survey import JobUnit
from fullmesh.verify.blocked import DATA_KINDS, SAID, ports_in_words, shown_ports
from fullmesh.verify.model import WARNING, Finding, in_words
from fullmesh.verify.node import FILES_PER_RANK


def said_of(look: Look, name: str) -> JobProbe | None:
    """What a node found as the account of jobs; None where it was not tried."""
    return look.seen.nodes.get(name, {}).get("links", {}).get("as_job")


def back_as_well(look: Look, name: str, peer: str) -> bool:
    """Whether what stops an account stops its answers, too: its listeners cannot be reached then.

    The listeners of the probe are not the jobs', so this is by the kernel's decision, or by the rules on paper.
    """
    for way in ways(look, name):
        of_account = way["uid"] != ANYBODY and way["direction"] == "answer"
        if of_account and way["peer"] == look.address(peer):
            return True
    card = look.cluster_card(name)
    port = (look.port_range(name) or KERNEL_RANGE).first
    asked = tcp(look.address(peer), look.address(name), port, card)
    return any(
        by_account(look, name, stop.table)
        for stop in suspects(look.ruleset(name), answer(asked, port))
    )


def rule_job_account(look: Look) -> Iterator[Finding]:
    """Connections come through for the probe, and not for the account of jobs."""
    for name in look.nodes:
        said = said_of(look, name)
        if not said:
            continue
        open_here = {(r["node"], r["port"]) for r in look.records(name) if r["verdict"] == "open"}
        shut: dict[str, list[Pair]] = {}
        for record in said["links"]:
            there = (record["node"], record["port"]) in open_here and record["node"] in look.nodes
            if there and not by_chance(look, name, record["node"]):
                shut.setdefault(record["node"], []).append(record)
        if not shut:
            continue
        peers = sorted(shut)
        held = shut[peers[0]]
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if back_as_well(look, name, peer)]
        data = sum(record["kind"] in DATA_KINDS for record in held)
        yield Finding(
            "DG-182",
            "L2",
            f"{name} -> {in_words(peers)} {SAID[held[0]['verdict']]} for {who}, who runs the jobs there; for the"
            f" probe's own account the same ports are open{'; its answers are stopped as well' if back else ''}",
            node=name,
            peer=in_words(peers),
            port=ports_in_words(look.seen, held, data),
            direction=f"{name} -> {in_words(peers)}",
            seen=f"as {who}: {shown_ports(held)}",
            expected="open for every account",
            fix=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}'; ip rule | grep uidrange",
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(r["kind"]) for records in shut.values() for r in records})),
        )


def rule_spared(look: Look) -> Iterator[Finding]:
    """Connections come through for the account of jobs, and not for the probe."""
    for name in look.nodes:
        said = said_of(look, name)
        if not said:
            continue
        past = [
            record
            for record in said.get("past", [])
            if record["node"] in look.nodes and not by_chance(look, name, record["node"])
        ]
        if not past:
            continue
        peers = sorted({record["node"] for record in past})
        held = [record for record in past if record["node"] == peers[0]]
        shut = [r for r in look.records(name) if r["node"] == peers[0] and r["verdict"] != "open"]
        data = sum(record["kind"] in DATA_KINDS for record in shut)
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if back_as_well(look, name, peer)]
        yield Finding(
            "DG-184",
            "L2",
            f"{name} -> {in_words(peers)} is shut for the account of the probe alone: {who}, who runs the jobs there,"
            " gets through",
            node=name,
            peer=in_words(peers),
            port=ports_in_words(look.seen, shut, data),
            direction=f"{name} -> {in_words(peers)}",
            seen=f"as {who}: {shown_ports(held)}",
            expected="open for every account",
            fix=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}'; ip rule | grep uidrange",
            severity=WARNING,
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(record["kind"]) for record in past})),
        )


def is_in(address: str, networks: Sequence[str]) -> bool:
    """Whether an address is in one of the networks, as systemctl show prints them."""
    here = ipaddress.ip_address(address)
    return any(
        here in net
        for one in networks
        if (net := ipaddress.ip_network(one, strict=False)).version == here.version
    )


def kept_from(look: Look, name: str, unit: JobUnit) -> Iterator[tuple[str, str, list[str]]]:
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
        if is_in(look.address(peer), unit["deny"]) and not is_in(look.address(peer), unit["allow"])
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


def rule_job_unit(look: Look) -> Iterator[Finding]:
    """The unit that jobs run in keeps them from the peers, or holds them to too little."""
    for name in look.nodes:
        unit = look.survey(name).get("job_unit")
        if not unit:
            continue
        for what, setting, peers in kept_from(look, name, unit):
            drop_ins = in_words(unit["drop_ins"])
            yield Finding(
                "DG-183",
                "L1",
                f"jobs that run as the unit fullmesh-job@ on {name} {what}; the probe is not in that unit",
                node=name,
                peer=in_words(peers),
                direction=f"{name} <-> {in_words(peers)}" if peers else "",
                seen=setting + (f" ({drop_ins})" if drop_ins else ""),
                expected="as Fullmesh wrote the unit",
                fix=f"on {name}: systemctl cat fullmesh-job@; take it out of its drop-ins, systemctl daemon-reload",
            )


RULES = (rule_job_account, rule_spared, rule_job_unit)
