"""Find differences between nodes, and values that they wrongly share, as hints if no rule explains a symptom.

Every value of a node is compared with those of the other nodes, except values that always differ (times, counters,
process ids). The node's own addresses, names and interface are replaced by neutral words first. A hint proves nothing.
It is shown only with an unexplained symptom that it can cause, the likeliest first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.causes.firewall.packet_filter import format_nft_rule
from fullmesh.diagnose.shape import clean_value
from fullmesh.result.findings import ERROR, Finding
from fullmesh.result.findings import join_names as listed
from fullmesh.result.types import NoteRow

MOST, NODES_MOST = 5, 16
SHOWN = 120
CODE = "DG-172"
ABSENT, THERE = "absent", "there"
CARD, FIREWALLD = "CARD", "firewalld"
# Values that change all the time, or that differ on every node.
PASSING = frozenset(
    (
        *("seconds", "now", "free", "age", "pid", "handle", "count", "state", "clock", "load", "boot"),
        *("index", "mac", "errors", "time_wait", "total", "in_range", "net.netfilter.nf_conntrack_count"),
        *("NODE_RANK", "identity", "source", "files", "unknown", "packets", "bytes", "active"),
    )
)  # fmt: skip
# Parts that other rules compare, or that change all the time.
NOT_COMPARED = frozenset(
    (
        "changed_sysctls",
        "legacy_rules",
        "sockets",
        "jobs",
        "kernel_log",
        "gpus",
        "next_boot",
        "disk",
        "namespaces",
        "tunnel",
    )
)
KINDS = {
    "VC-201": "drop",
    "VC-202": "refuse",
    "VC-203": "refuse",
    "VC-204": "drop",
    "VC-205": "cut",
    "VC-206": "source",
    "VC-207": "source",
    "VC-208": "large",
    "DG-115": "between",
    "DG-138": "slow",
}
ANY = frozenset(KINDS.values())
# Possible effects: the beginning of a path, how well it fits, and the symptoms. The first match counts.
FITS: tuple[tuple[str, int, frozenset[str]], ...] = (
    (r"nft/|firewalld/|legacy_tables|hooks", 3, frozenset(("drop", "refuse", "cut"))),
    (r"hooks", 3, frozenset(("between",))),  # XDP stops what no tap has seen yet
    (r"nft/|firewalld/|legacy_tables|hooks", 1, ANY),
    (
        r"routes/|neighbours/|addresses/|interfaces/CARD/addresses",
        3,
        frozenset(("drop", "source", "cut", "large", "between")),
    ),
    (r"sysctls/net\.ipv[46]\.conf|interfaces/[^/]+/rp_filter", 3, frozenset(("drop", "source", "between"))),
    (r"interfaces?/(CARD/)?mtu|sysctls/net\.ipv4\.tcp_mtu", 3, frozenset(("large", "slow", "cut"))),
    (r"interfaces/CARD|interface/", 2, ANY),
    (r"sysctls/net\.|duplicates", 2, ANY),
    (r"names/|own_answers|master_answers|reverse/", 1, frozenset(("refuse", "source", "drop"))),
    (r"interfaces/|selinux/mode|limits/|sysctls/", 1, ANY),
    (r"kernel|software/", 1, frozenset(("slow", "large", "cut"))),
)  # fmt: skip
SHARED_FIT = {"hardware address": 3, "address": 3, "host name": 1, "machine-id": 1, "boot id": 1}


@dataclass(frozen=True)
class CauseCandidate:
    """A possible cause.

    Attributes:
        what: its path in the nodes' answers, or the value that they share.
        values: each value with the nodes that have it, the usual one last. One value if they share it.
        odd: the nodes that differ from the others, or that share it.
        weight: the likelier, the larger.
    """

    what: str
    values: Mapping[str, Sequence[str]]
    odd: tuple[str, ...]
    weight: int = 0


def map_identities(evidence: ClusterEvidence, names: Sequence[str], name: str) -> dict[str, str]:
    """Map names of nodes, addresses and interfaces to neutral words, from the view of node *name*."""
    found: dict[str, str] = {}
    for one in names:
        whose = "own" if one == name else "peer"
        facts, own_interface = evidence.seen.facts(one), evidence.get_cluster_interface(one)
        for address, interface in facts.get("addresses", {}).items():
            if not has_loopback_prefix(address):
                found[address] = f"{whose}:{CARD if interface == own_interface else interface}"
        for nic in evidence.list_nics(one):
            if nic["mac"].strip("0:"):
                found[nic["mac"]] = f"{whose}:mac"
        for word in (one, facts.get("names", {}).get("hostname", "")):
            if word:
                found[word] = f"{whose}:name"
        found[evidence.address(one)] = f"{whose}:{CARD}"
    if own_interface := evidence.get_cluster_interface(name):
        found[own_interface] = CARD
    return found


def make_neutralizer(words: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces names with neutral words, the longest name first."""
    if not words:
        return lambda text: text
    longest = sorted(words, key=len, reverse=True)
    pattern = re.compile(
        r"(?<![\w.:-])(?:" + "|".join(map(re.escape, longest)) + r")(?![\w:-]|\.\w)"
    )
    return lambda text: pattern.sub(lambda hit: words[hit[0]], text)


def flatten_values(held: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """List every value with its path. Each item of a list gets its own path, so that order does not matter."""
    if isinstance(held, Mapping):
        for key, value in held.items():
            if key not in PASSING:
                yield from flatten_values(value, f"{path}/{key}" if path else str(key))
    elif isinstance(held, list):
        for one in held:
            if isinstance(one, Mapping) and "name" in one:
                places = [str(one[key]) for key in ("family", "table", "name") if key in one]
                rest = {key: value for key, value in one.items() if key != "name"}
                yield from flatten_values(rest, f"{path}/{' '.join(places)}")
            else:
                yield f"{path}/{format_list_value(one)}", THERE
    else:
        yield path, str(held)


def format_list_value(one: Any) -> str:
    """Return an item of a list as one word, without transient values."""
    return one if isinstance(one, str) else json.dumps(drop_transient_values(one), sort_keys=True)


def drop_transient_values(held: Any) -> Any:
    """Return a value without its transient parts."""
    if isinstance(held, Mapping):
        return {
            key: drop_transient_values(value) for key, value in held.items() if key not in PASSING
        }
    return [drop_transient_values(one) for one in held] if isinstance(held, list) else held


def collect_node_values(evidence: ClusterEvidence, name: str) -> set[tuple[str, str]]:
    """Return the answers of a node, unchanged."""
    facts = evidence.seen.facts(name)
    parts: dict[str, Any] = {key: value for key, value in facts.items() if key != "survey"}
    parts |= {key: value for key, value in evidence.survey(name).items() if key not in NOT_COMPARED}
    if "nft" in parts:
        parts["nft"] = summarize_packet_filter(evidence, name)
    return set(flatten_values(parts))


def summarize_packet_filter(evidence: ClusterEvidence, name: str) -> dict[str, Any]:
    """List chains and rules of a node's packet filter. Omit firewalld's table, which follows from its zones."""
    chains, rules = [], []
    for (family, table, chain), held in evidence.ruleset(name)["chains"].items():
        if table == FIREWALLD:
            continue
        hook = (
            f" (hook {held['hook']}, policy {held['policy'] or 'accept'})" if held["hook"] else ""
        )
        chains.append(f"{family} {table} {chain}{hook}")
        rules += [f"{family} {table} {chain}: {format_nft_rule(rule)}" for rule in held["rules"]]
    return {
        "chains": chains,
        "rules": rules,
        "sets": [
            one for one in evidence.survey(name)["nft"]["sets"] if one.get("table") != FIREWALLD
        ],
    }


def tabulate_node_values(
    evidence: ClusterEvidence, names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Map node -> path -> value, in neutral words, without values that are the same on all nodes."""
    said = {name: collect_node_values(evidence, name) for name in names if evidence.survey(name)}
    common = set.intersection(*said.values()) if said else set()
    found = {}
    for name, rows in said.items():
        say, values = make_neutralizer(map_identities(evidence, names, name)), dict[str, set[str]]()
        for path, value in rows - common:
            values.setdefault(say(path), set()).add(say(value))
        found[name] = {path: " ".join(sorted(held)) for path, held in values.items()}
    return found


def find_differences(evidence: ClusterEvidence, names: Sequence[str] = ()) -> list[CauseCandidate]:
    """Find values that differ between nodes, with the nodes of the rarest values (all without a majority)."""
    sides = tabulate_node_values(evidence, names or evidence.nodes)
    found = []
    for path in sorted({path for side in sides.values() for path in side}):
        values: dict[str, list[str]] = {}
        for name, side in sides.items():
            values.setdefault(side.get(path, ABSENT), []).append(name)
        if len(values) > 1:
            rare_first = dict(sorted(values.items(), key=lambda item: len(item[1])))
            usual = list(rare_first.values())[-1]
            clear = 2 * len(usual) > len(sides)
            odd = tuple(name for name in sides if not (clear and name in usual))
            found.append(CauseCandidate(path, rare_first, odd, int(clear)))
    return found


def find_shared_identities(evidence: ClusterEvidence) -> list[CauseCandidate]:
    """Find values that several nodes share although each must have its own."""
    held: dict[tuple[str, str], list[str]] = {}

    def has(name: str, what: str, value: str) -> None:
        if value and name not in held.setdefault((what, value), []):
            held[what, value].append(name)

    for name in evidence.nodes:
        facts = evidence.seen.facts(name)
        has(name, "host name", facts.get("names", {}).get("hostname", ""))
        has(name, "boot id", facts.get("boot", ""))
        has(
            name, "machine-id", evidence.survey(name).get("identity", {}).get("machine_id", "")[:12]
        )
        for address in facts.get("addresses", {}):
            has(name, "address", "" if has_loopback_prefix(address) else address)
        for nic in evidence.list_nics(name):
            has(name, "hardware address", nic["mac"] if nic["mac"].strip("0:") else "")
    return [
        CauseCandidate(what, {value: names}, tuple(names), 1)
        for (what, value), names in held.items()
        if len(names) > 1
    ]


def select_compared_nodes(evidence: ClusterEvidence, ends: Collection[str]) -> list[str]:
    """Return the ends of the broken links, and enough other nodes to know the usual values."""
    first = [name for name in evidence.nodes if name in ends][:NODES_MOST]
    others = [name for name in evidence.nodes if name not in ends]
    return first + others[:NODES_MOST]


def score_explanation(path: str, kind: str) -> int:
    """Return how well a difference explains a symptom, or 0."""
    return next((fit for start, fit, kinds in FITS if kind in kinds and re.match(start, path)), 0)


def list_unexplained_errors(found: Sequence[Finding]) -> list[Finding]:
    """List errors that say how packets are lost, but not why."""
    return [one for one in found if one.severity == ERROR and one.code in KINDS]


def rank_candidates(evidence: ClusterEvidence, found: Sequence[Finding]) -> list[CauseCandidate]:
    """List possible causes of unexplained findings, the likeliest first."""
    symptoms = list_unexplained_errors(found)
    if not symptoms:
        return []
    ends = {
        end
        for one in symptoms
        for end in (one.node, one.peer, *(n for pair in one.pairs for n in pair))
    }
    kinds = {KINDS[one.code] for one in symptoms}
    weighed = [
        (2 * max(score_explanation(one.what, kind) for kind in kinds), one)
        for one in find_differences(evidence, select_compared_nodes(evidence, ends))
    ]
    weighed += [(2 * SHARED_FIT[one.what], one) for one in find_shared_identities(evidence)]
    likely = [
        replace(one, weight=one.weight + fit) for fit, one in weighed if fit and ends & set(one.odd)
    ]
    return sorted(likely, key=lambda one: (-one.weight, one.what))[:MOST]


def describe_candidates(evidence: ClusterEvidence, found: Sequence[Finding]) -> list[NoteRow]:
    """Render the candidate as text, for the result."""
    made: list[NoteRow] = []
    for one in rank_candidates(evidence, found):
        said = "; ".join(
            f"{clean_value(value, SHOWN)} on {listed(names)}" for value, names in one.values.items()
        )
        made.append({"node": "", "code": CODE, "text": f"{clean_value(one.what, SHOWN)}: {said}"})
    return made
