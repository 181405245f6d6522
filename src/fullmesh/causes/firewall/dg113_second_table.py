"""A second table of nftables rules stops packets that the node's firewall accepts

In nftables, an accept ends only its own base chain, and another table can still drop the packet.
Opening ports in firewalld does not help if a table of Docker, a hardening script or an old
experiment drops them.

**Prove:** nft list ruleset

**Fix:** Remove the rule, or add the peers to it, also in the file that loads it at boot. To find the
file: grep -r TABLE /etc

**Source:** nft(8), measured with torch 2.13
"""

from __future__ import annotations

from dataclasses import replace

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import LEGACY, ClusterEvidence
from fullmesh.causes.firewall import packet_filter
from fullmesh.causes.firewall.blocked_links import make_block_finding, suggest_rule_removal
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.firewall.packet_filter import VERBS
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding


def find_accepting_table(evidence: ClusterEvidence, rule: BlockingRule) -> str:
    """Return another table that accepts the packet which the rule stops, or ""."""
    if not rule.stop.table:
        return ""
    rules = evidence.ruleset(rule.node)
    names = [
        name
        for name in packet_filter.list_deciding_tables(rules, rule.packet)
        if name != rule.stop.table
    ]
    return next(
        (name for name in names if packet_filter.is_accepted_by_table(rules, rule.packet, name)), ""
    )


def explain_second_table(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find a rule outside the node's firewall that drops packets which the firewall accepts."""
    other = find_accepting_table(evidence, rule)
    if not other or rule.stop.table.endswith(" firewalld"):
        return None
    verb, ports = VERBS[rule.stop.verdict], rule.group[0].ports
    text = (
        f"the table {rule.stop.table} on {rule.node} {verb} packets {describe_direction(rule)} to {ports},"
        f" although {other} is the node's firewall"
    )
    word = "iptables" if rule.stop.table.endswith(LEGACY) else rule.stop.table.split()[-1]
    found = make_block_finding(rule, "DG-113", text, suggest_rule_removal(rule))
    return replace(
        found, check=f"on {rule.node}: grep -r {word} /etc  # the file that loads the rule at boot"
    )


CAUSE = Cause(
    "DG-113",
    __doc__,
    explain_block=explain_second_table,
    weight=760,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "second-table",
            "a separate table whose input chain drops the data range, while another table's chain accepts it",
            fields=LINK,
        ),
    ),
)
