"""What the account that runs jobs meets, and the probe's own does not."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.diagnose.model import Look
from fullmesh.diagnose.packet_filter import answer, suspects, tcp
from fullmesh.diagnose.rules.decisions import ACCOUNTS, ANYBODY, by_account, ways
from fullmesh.observed.ladder import JobProbe, Pair
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.verify.blocked import DATA_KINDS, SAID, ports_in_words, shown_ports
from fullmesh.verify.model import Finding, in_words


def said_of(look: Look, name: str) -> JobProbe | None:
    """What a node found as the account of jobs; None where it was not tried."""
    return look.seen.nodes.get(name, {}).get("links", {}).get("as_job")


def back_as_well(look: Look, name: str, peer: str) -> bool:
    """Whether what stops the account stops its answers, too: its listeners cannot be reached then.

    The listeners of the probe are not the account's, so this is by the kernel's decision, or by the rules on paper.
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
            if (record["node"], record["port"]) in open_here and record["node"] in look.nodes:
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


RULES = (rule_job_account,)
