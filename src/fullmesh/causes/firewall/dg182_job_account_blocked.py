"""The account that runs jobs is blocked, and the probe's account is not

The probe connects as the account that runs it. Rules of nftables (meta skuid, skgid) and routing
(uidrange) can block one account only. As root, the probe repeats some connections as the account of
jobs: the setting launchers_job_user, else User= of fullmesh-job@, else the account of running
ranks. Jobs of that account cannot connect, although all other checks pass.

**Prove:** runuser -u ACCOUNT -- nc -zv PEER PORT

**Fix:** Remove the rule, or allow the account to reach the peers.

**Source:** measured: meta skuid drops in the chain output while root's connections are open
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.job_account import get_job_probe, is_return_blocked
from fullmesh.causes.quality.link_quality import is_random_loss
from fullmesh.causes.relations import has_same_node
from fullmesh.causes.routes.decisions import ACCOUNTS
from fullmesh.observed.ladder import LinkResult
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import DATA_KINDS, SAID, describe_blocked_ports, describe_port_errors


def rule_job_account(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find connections that work for the probe, but not for the account of jobs."""
    for name in evidence.nodes:
        said = get_job_probe(evidence, name)
        if not said:
            continue
        open_here = {
            (r["node"], r["port"]) for r in evidence.records(name) if r["verdict"] == "open"
        }
        shut: dict[str, list[LinkResult]] = {}
        for record in said["links"]:
            there = (record["node"], record["port"]) in open_here and record[
                "node"
            ] in evidence.nodes
            if there and not is_random_loss(evidence, name, record["node"]):
                shut.setdefault(record["node"], []).append(record)
        if not shut:
            continue
        peers = sorted(shut)
        held = shut[peers[0]]
        who = f"{said['account']} (uid {said['uid']})"
        back = [(peer, name) for peer in peers if is_return_blocked(evidence, name, peer)]
        data = sum(record["kind"] in DATA_KINDS for record in held)
        yield Finding(
            "DG-182",
            "L2",
            f"{name} -> {join_names(peers)} {SAID[held[0]['verdict']]} for {who}, the account of jobs there. For the"
            f" probe's own account the same ports are open{'. Replies are stopped as well' if back else ''}",
            node=name,
            peer=join_names(peers),
            port=describe_blocked_ports(evidence.seen, held, data),
            direction=f"{name} -> {join_names(peers)}",
            seen=f"as {who}: {describe_port_errors(held)}",
            expected="open for every account",
            check=f"on {name}: nft list ruleset | grep -E '{'|'.join(ACCOUNTS)}', and ip rule | grep uidrange",
            fix=f"on {name}: remove that rule, or let it accept {who}",
            pairs=(*((name, peer) for peer in peers), *back),
            kinds=tuple(sorted({str(r["kind"]) for records in shut.values() for r in records})),
        )


CAUSE = Cause(
    "DG-182",
    __doc__,
    find=rule_job_account,
    weight=920,
    explains=(Explains(("DG-255", "VC-325"), has_same_node),),
    cases=(
        CauseCase("job-account", "nft output: meta skuid of the jobs' account, drop", fields=LINK),
    ),
)
