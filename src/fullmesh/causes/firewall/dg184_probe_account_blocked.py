"""Only the probe's account is blocked, and the account that runs jobs is not (warning)

Rules of nftables (meta skuid, skgid) and routing (uidrange) can block root, or the probe's account,
only. If the probe is blocked, it repeats some connections as the account of jobs. If all of these
succeed while the probe is still blocked, jobs are not affected. Ansible, node_ssh and other
programs that connect between nodes as the probe's account are.

**Prove:** nc -zv PEER PORT || runuser -u ACCOUNT -- nc -zv PEER PORT

**Fix:** Remove the rule, or allow root to reach the peers as well.

**Source:** measured: meta skuid 0 drops in the chain postrouting while the jobs' connections are
open
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.job_account import get_job_probe, is_return_blocked
from fullmesh.causes.quality.link_quality import is_random_loss
from fullmesh.causes.relations import SPARED, has_same_node, is_account_rule, is_return_path
from fullmesh.causes.routes.decisions import ACCOUNTS
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.blocked import DATA_KINDS, describe_blocked_ports, describe_port_errors


def rule_probe_only_block(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find connections that work for the account of jobs, but not for the probe."""
    for name in evidence.nodes:
        said = get_job_probe(evidence, name)
        if not said:
            continue
        past = [
            record
            for record in said.get("past", [])
            if record["node"] in evidence.nodes
            and not is_random_loss(evidence, name, record["node"])
        ]
        if not past:
            continue
        peers = sorted({record["node"] for record in past})
        held = [record for record in past if record["node"] == peers[0]]
        shut = [
            r for r in evidence.records(name) if r["node"] == peers[0] and r["verdict"] != "open"
        ]
        data = sum(record["kind"] in DATA_KINDS for record in shut)
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if is_return_blocked(evidence, name, peer)]
        yield Finding(
            "DG-184",
            "L2",
            f"{name} -> {join_names(peers)} is blocked for the probe's account only: {who}, the account of jobs there,"
            " gets through",
            node=name,
            peer=join_names(peers),
            port=describe_blocked_ports(evidence.seen, shut, data),
            direction=f"{name} -> {join_names(peers)}",
            seen=f"as {who}: {describe_port_errors(held)}",
            expected="open for every account",
            check=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}', and ip rule | grep uidrange",
            fix=f"on {name}: remove that rule, or let it accept the probe's account",
            severity=WARNING,
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(record["kind"]) for record in past})),
        )


CAUSE = Cause(
    "DG-184",
    __doc__,
    find=rule_probe_only_block,
    severity=WARNING,
    weight=1030,
    explains=(
        Explains(SPARED, is_return_path),
        Explains(SPARED, is_account_rule),
        Explains(("DG-255",), has_same_node),
    ),
    cases=(CauseCase("root-account", "nft output: meta skuid 0, drop", fields=LINK),),
)
