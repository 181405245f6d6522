"""A device between the nodes stops the packets

Fullmesh captured packets on both nodes: they left one node and did not arrive at the other. So something between the
nodes stops them, such as a cloud security group, a switch ACL, a hypervisor or a router. Connections time out.

**Prove:** tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-syn != 0' on both nodes

**Fix:** In that device, allow the data range and the named ports between the nodes, in both
directions.

**Source:** AF_PACKET taps in front of and behind the nodes' own firewalls
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import (
    describe_loss_between,
    has_efa_ends,
    is_between_nodes,
    make_block_finding,
)
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding


def explain_network_block(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find packets that left one node and did not reach the other."""
    if not is_between_nodes(rule) or has_efa_ends(evidence, rule):
        return None
    data = evidence.plan["data_ports"]["firewalld"]
    fix = (
        f"allow tcp {data} and the named ports between the nodes in the network (switch ACL, cloud "
        f"security group), both ways"
    )
    return make_block_finding(rule, "DG-115", describe_loss_between(rule), fix)


CAUSE = Cause(
    "DG-115",
    __doc__,
    explain_block=explain_network_block,
    weight=740,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "between",
            "drop on the bridge outside the node, or a netdev ingress hook on the host's end of its cable",
            fields=LINK,
        ),
    ),
)
