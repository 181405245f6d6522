"""A node does not answer Ansible

Fullmesh has no data about this node. It diagnosed the other nodes, but it did not test their links
to this one.

**Prove:** ansible -i INVENTORY NODE -m ping -vvv

**Fix:** Repair power, network, sshd, the key or the host key, then run the diagnosis again.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import Finding


def rule_silent_nodes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report each node that does not answer. The other nodes are still diagnosed."""
    for name, (kind, text) in evidence.silent.items():
        if kind == "unreachable":
            yield Finding(
                "DG-201",
                "L0",
                f"{name} does not answer Ansible",
                node=name,
                seen=text,
                expected="a login over ssh",
                check=f"ansible -i {evidence.seen.inventory} {name} -m ping -vvv",
                fix=f"switch {name} on, start its sshd, or correct its key, host key or address",
            )
        else:
            yield Finding(
                "DG-202",
                "L0",
                f"{name} answers, but its survey failed",
                node=name,
                seen=text,
                expected="Python 3.9 or newer on the node",
                check=f"ansible -i {evidence.seen.inventory} {name} -m raw -a 'python3 --version'",
                fix=f"on {name}: install Python 3.9 or newer, or set ansible_python_interpreter",
            )


CAUSE = Cause(
    "DG-201",
    __doc__,
    find=rule_silent_nodes,
    weight=310,
    cases=(CauseCase("unreachable", "stop the node's sshd or the node", fields=("node", "seen")),),
)
