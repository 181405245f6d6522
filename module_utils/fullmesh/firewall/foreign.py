# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find rules in the kernel, outside of firewalld, that would drop the peers' traffic.

Standard library only.

An accept in firewalld does not prevent a drop in another base chain (measured: nftables runs all of them by hook and
priority), so other tables decide as well.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ..facts.node import map_global_addresses, read_stripped
from ..files import SPACE, split_words
from ..netfilter import ruleset
from ..tools import nft
from . import blocking, firewalld, firewalld_files

if TYPE_CHECKING:
    from typing import Any

    from ..answer import Note
    from ..commands import Runner
    from ..netfilter.ruleset import NftRule, Ruleset
    from .types import BlockerQuery, ClusterLink, FirewallRequest, FoundPeerBlocker, PeerSenders


FAMILIES = (("ip", "iptables", "ip_tables_names"), ("ip6", "ip6tables", "ip6_tables_names"))
VERBS = {"drop": "drops", "divert": "leads elsewhere"}


def find_cluster_links(run: Runner, peers: list[str]) -> list[ClusterLink]:
    """Return this node's cluster addresses: interface, family, address, network. Empty if it has none yet."""
    wanted = firewalld_files.group_by_family(peers)
    found: list[ClusterLink] = []
    for name, addresses in sorted(map_global_addresses(run).items()):
        for text in addresses:
            one = ipaddress.ip_interface(text)
            family, address = str(one.version), str(one.ip)
            if address in wanted[family]:
                found.append(
                    {
                        "interface": name,
                        "family": family,
                        "address": address,
                        "network": one.network,
                    }
                )
    return found


def group_senders(links: list[ClusterLink], peers: list[str]) -> list[PeerSenders]:
    """Return the queries for the rules, by link: the sending peers, and their target address.

    A peer of another network uses the only link, or an unknown one. Rules about interfaces are then uncertain. This
    node's own addresses send nothing here.
    """
    asked = []
    for family, addresses in sorted(firewalld_files.group_by_family(peers).items()):
        mine = [link for link in links if link["family"] == family]
        own = {link["address"] for link in mine}
        left = [ipaddress.ip_address(one) for one in addresses if one not in own]
        for link in mine:
            near = [one for one in left if one in link["network"]]
            asked.append(build_senders(family, near, link["interface"], link["address"]))
        far = [one for one in left if not any(one in link["network"] for link in mine)]
        # An address that a routing daemon announces is on lo, on which no packets arrive.
        names = {link["interface"] for link in links} - {"lo"}
        name = names.pop() if len(names) == 1 else ""
        asked.append(build_senders(family, far, name, mine[0]["address"] if len(mine) == 1 else ""))
    return [one for one in asked if any(one["peers"].values())]


def build_senders(family: str, peers: list[Any], interface: str, address: str) -> PeerSenders:
    """Build a query for `find_peer_blockers`: the senders, the interface and the target address."""
    own = {family: address} if address else {}
    return {"peers": {family: [str(one) for one in peers]}, "own": own, "interface": interface}


def read_foreign_nftables(run: Runner) -> Ruleset:
    """Return every nftables rule except firewalld's own, including those of iptables-nft."""
    rc, out = run(nft.SHOW_RULESET)
    text = out if rc == 0 and out.strip(SPACE) else firewalld.query_libnftables("list ruleset")
    rules = ruleset.parse_nft_json(text)
    for key in [key for key in rules["chains"] if key[1] == "firewalld"]:
        del rules["chains"][key]
    if ruleset.has_xt(rules):
        for family, tool, _ in FAMILIES:
            rc, saved = run([tool + "-nft-save"])
            rc, saved = (rc, saved) if rc == 0 else run([tool + "-save"])
            ruleset.fill_xt_rules(rules, family, saved if rc == 0 else "")
    return rules


def remove_ufw_rules(rules: Ruleset) -> None:
    """Remove ufw's rules and policies, because they are about to disappear."""
    for chain in rules["chains"].values():
        kept = [rule for rule in chain["rules"] if not find_jump_target(rule).startswith("ufw")]
        if len(kept) < len(chain["rules"]):
            chain["rules"], chain["policy"] = kept, "accept"


def find_jump_target(rule: NftRule) -> str:
    """Return the target chain of a rule."""
    found = [
        part[word]["target"] for part in rule["expr"] for word in ("jump", "goto") if word in part
    ]
    return str(found[0]) if found else ""


def read_legacy_iptables(run: Runner, proc: str = "/proc") -> tuple[list[Ruleset], list[str]]:
    """Return the rules in iptables' old tables, which nftables does not show, and the unreadable tables.

    /proc/net/ip_tables_names lists the tables in use.
    """
    found, unread = [], []
    for family, tool, names in FAMILIES:
        tables = split_words(read_stripped(f"{proc}/net/{names}"))
        if not tables:
            continue
        rc, out = run([tool + "-legacy-save"])
        if rc != 0:
            unread.append("{} ({})".format(tool, ", ".join(sorted(tables))))
        else:
            found.append(ruleset.parse_iptables_save(out, family))
    return found, unread


def check_foreign_rules(
    run: Runner, want: FirewallRequest, ufw_goes: bool
) -> tuple[list[str], list[Note]]:
    """Describe rules outside of firewalld that block the peers: coded faults, and notes about uncertain ones.

    *want*: peers, ports. *ufw_goes*: ufw's rules are left out, because they are about to be removed.
    """
    asked: list[BlockerQuery] = [
        {**one, "ports": want["ports"]}
        for one in group_senders(find_cluster_links(run, want["peers"]), want["peers"])
    ]
    rules = read_foreign_nftables(run)
    if ufw_goes:
        remove_ufw_rules(rules)
    old, unread = read_legacy_iptables(run)
    found: list[FoundPeerBlocker] = []
    for tool, ruleset_ in [("nft", rules), *(("iptables-legacy", one) for one in old)]:
        for question_ in asked:
            blockers: list[FoundPeerBlocker] = [
                {**one, "tool": tool} for one in blocking.find_peer_blockers(ruleset_, question_)
            ]
            found += [
                one for one in blockers if not any(is_same_rule(one, other) for other in found)
            ]
    add_rule_lines(run, found)
    return blockers_to_faults(found, unread)


def is_same_rule(one: FoundPeerBlocker, other: FoundPeerBlocker) -> bool:
    """Return whether two findings concern the same rule. Each has its own example, and one is enough."""
    example = {"port": "", "sender": "", "line": ""}
    return {**one, **example} == {**other, **example} and (
        one["handle"] is not None or one["line"] == other["line"]
    )


def add_rule_lines(run: Runner, found: list[FoundPeerBlocker]) -> None:
    """Add the rule's text to every finding that only has a handle."""
    if all(one["line"] for one in found):
        return
    rc, text = run(nft.SHOW_RULE_TEXT)
    rules = nft.parse_rule_lines(text) if rc == 0 else []
    lines = {(one.family, one.table, one.handle): one.line for one in rules}
    for blocker in found:
        known = (blocker["family"], blocker["table"], blocker["handle"] or 0)
        blocker["line"] = blocker["line"] or lines.get(known, "(no text)")


def blockers_to_faults(
    found: list[FoundPeerBlocker], unread: list[str]
) -> tuple[list[str], list[Note]]:
    """Convert findings to faults and notes."""
    faults, notes = [], []
    for one in found:
        text = describe_blocker(one)
        if one["hook"] == "forward":
            # Policies of the forward hook are usual for Docker and ufw, and only concern containers.
            if one["sure"] and not one["line"].startswith("policy"):
                notes.append(
                    make_firewall_note("PF-205", text + " This only affects jobs in containers.")
                )
        elif one["sure"]:
            faults.append(f"[PF-124] {text} {suggest_blocker_fix(one)}")
        else:
            notes.append(
                make_firewall_note("PF-206", text + " This depends on more than the packet.")
            )
    for tables in unread:
        text = f"the old tables of {tables} are in use and cannot be read"
        notes.append(make_firewall_note("PF-207", text + "; install iptables-legacy."))
    return faults, notes


def make_firewall_note(code: str, text: str) -> Note:
    """Make one note."""
    return {"code": code, "text": text}


def describe_blocker(one: FoundPeerBlocker) -> str:
    """Describe a blocking rule."""
    place = "table {family} {table}, chain {chain}".format(**one)
    place += " (hook {})".format(one["hook"]) if one["hook"] else ""
    place += ", handle {}".format(one["handle"]) if one["handle"] is not None else ""
    if one["tool"] != "nft":
        place += ", in iptables' old tables"
    verb = VERBS[one["word"]] if one["sure"] else "may drop"
    return "{} {} {} from the peer {}: `{}`.".format(
        place, verb, one["port"], one["sender"], one["line"]
    )


def suggest_blocker_fix(one: FoundPeerBlocker) -> str:
    """Suggest a fix for a blocking rule."""
    if one["line"].startswith("policy"):
        return (
            "An accept in firewalld does not prevent a drop in another chain. Let the peers pass in that chain, "
            "or set its policy to accept."
        )
    if one["tool"] != "nft":
        command = "{}-legacy -t {} -D{}".format(
            {"ip": "iptables", "ip6": "ip6tables"}[one["family"]], one["table"], one["line"][2:]
        )
    else:
        command = "nft delete rule {family} {table} {chain} handle {handle}".format(**one)
    return (
        "An accept in firewalld does not prevent a drop in another chain. Remove the rule "
        f"(`{command}`, and its file), or except the peers in it."
    )
