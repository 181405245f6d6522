"""Nodes that could not be looked at, and probes that could not be started."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import Finding


def rule_silent_nodes(look: ClusterEvidence) -> Iterator[Finding]:
    """A node that does not answer is a finding; the others are diagnosed all the same."""
    for name, (kind, text) in look.silent.items():
        if kind == "unreachable":
            yield Finding(
                "DG-201",
                "L0",
                f"{name} does not answer Ansible",
                node=name,
                seen=text,
                expected="a login over ssh",
                fix=f"ansible -i {look.seen.inventory} {name} -m ping -vvv; is it powered, is sshd "
                f"up, is its host key known?",
            )
        else:
            yield Finding(
                "DG-202",
                "L0",
                f"{name} answers and could not be looked at",
                node=name,
                seen=text,
                expected="Python 3.9 or newer on the node",
                fix=f"ansible -i {look.seen.inventory} {name} -m raw -a 'python3 --version'",
            )


def rule_failed_probes(look: ClusterEvidence) -> Iterator[Finding]:
    """A node whose own probe could not be started: its outgoing links were not tried."""
    for name in look.nodes:
        node = look.seen.nodes[name]
        links = node.get("links")
        if "L2" not in look.seen.rungs or (links is not None and not links.get("failed")):
            continue
        if len(look.nodes) == 1 or not node["node"]["ports"]:
            continue
        yield Finding(
            "DG-203",
            "L2",
            f"the probe could not be started on {name}, so no link from it was tried",
            node=name,
            seen=(links.get("failed", "") if links else "") or "no answer",
            expected="a probe",
            fix=f"ansible -i {look.seen.inventory} {name} -m ping; then run the diagnosis again",
        )


RULES = (rule_silent_nodes, rule_failed_probes)
