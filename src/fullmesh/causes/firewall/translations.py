"""Rules that translate the source address of packets: SNAT and MASQUERADE, in nftables and in iptables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import format_nft_rule
from fullmesh.netfilter.evaluator import Packet, PacketWalk, order_base_chains
from fullmesh.netfilter.ruleset import NftRule, Ruleset

TRANSLATED = "translated"
# Statements of nft, and targets of iptables. The two of conntrack zones change no address.
STATEMENTS = ("snat", "masquerade")
TARGETS = re.compile(r"-j (SNAT|MASQUERADE|NETMAP)\b(?: --to(?:-source)? (\S+))?")


@dataclass(frozen=True)
class SourceTranslation:
    """A rule that translates the source address of a packet.

    Attributes:
        table: with its family.
        chain: of the rule.
        handle: of the rule, 0 if unknown.
        line: the rule in the format of iptables, if it is one of the old tables.
        text: the rule.
        address: the new source address. Empty for the first address of the interface, or if unknown.
        sure: all its conditions are known to hold.
    """

    table: str
    chain: str
    handle: int
    line: str
    text: str
    address: str
    sure: bool


def read_translation(rule: NftRule) -> tuple[str, str] | None:
    """Return the statement of a rule that translates the source, and the new address, or None."""
    target = TARGETS.search(rule["line"])
    if target:
        return target[1], (target[2] or "").partition(":")[0]
    for part in rule["expr"]:
        kind = next(iter(part), "")
        held = part[kind] if kind else None
        if kind in STATEMENTS:
            address = held.get("addr", "") if isinstance(held, Mapping) else ""
            return kind, address if isinstance(address, str) else ""
        if kind == "xt" and isinstance(held, Mapping) and held.get("type") == "target":
            name = str(held.get("name", ""))
            if name in ("SNAT", "MASQUERADE", "NETMAP"):
                return name, ""
    return None


class TranslationWalk(PacketWalk):
    """The way of a packet to the first rule that translates its source."""

    def __init__(self, ruleset: Ruleset, packet: Packet) -> None:
        super().__init__(ruleset, packet)
        self.perhaps: list[tuple[tuple[str, str, str], NftRule]] = []

    def rule(self, key: tuple[str, str, str], rule: NftRule) -> tuple[bool | None, str, str]:
        """Return whether a rule's conditions hold, its verdict (or TRANSLATED), and its target."""
        holds, verdict, target = super().rule(key, rule)
        if verdict or holds is False or not read_translation(rule):
            return holds, verdict, target
        if holds is None or self.guesses:
            self.perhaps.append((key, rule))
        return holds, TRANSLATED, ""


def has_translations(ruleset: Ruleset) -> bool:
    """Return whether any rule of a node translates a source address."""
    return any(read_translation(r) for chain in ruleset["chains"].values() for r in chain["rules"])


def find_translation(
    evidence: ClusterEvidence, name: str, packet: Packet
) -> SourceTranslation | None:
    """Return the rule of a node that translates the source of a packet to another address, or None."""
    ruleset = evidence.ruleset(name)
    hook = "postrouting" if packet.outgoing else "input"
    for base in order_base_chains(ruleset, packet, (hook,)):
        if ruleset["chains"][base]["type"] != "nat":
            continue
        walk = TranslationWalk(ruleset, packet)
        end = walk.base(base)
        if end.word == TRANSLATED and end.rule is not None:
            found = describe_translation(end.key, end.rule, True)
        elif walk.perhaps:
            found = describe_translation(*walk.perhaps[0], False)
        else:
            continue
        if (found.address or find_first_address(evidence, name)) != packet.saddr:
            return found
    return None


def describe_translation(key: tuple[str, str, str], rule: NftRule, sure: bool) -> SourceTranslation:
    """Describe a rule that translates the source."""
    kind, address = read_translation(rule) or ("", "")
    text = format_nft_rule(rule)
    if address and address not in text:
        text = f"{text} to {address}"
    return SourceTranslation(
        f"{key[0]} {key[1]}", key[2], rule["handle"] or 0, rule["line"], text or kind, address, sure
    )


def find_first_address(evidence: ClusterEvidence, name: str) -> str:
    """Return the first address of a node's cluster interface in the plan's family, which MASQUERADE uses."""
    nic = evidence.find_nic(name, evidence.get_cluster_interface(name))
    own = evidence.address(name)
    held = [one.partition("/")[0] for one in nic["addresses"]] if nic else []
    return next((one for one in held if (":" in one) == (":" in own)), own)
