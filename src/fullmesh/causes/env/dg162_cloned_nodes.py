"""Two nodes have the same machine-id or ssh host key

The machines were cloned after their first boot. systemd-networkd and NetworkManager derive their
DHCP identity from the machine-id, so a DHCP server may give both the same address. With the same
host key, ssh cannot tell the nodes apart, and either can pose as the other. If all nodes boot one
image on purpose and have static addresses, jobs are not affected.

**Prove:** on every node: cat /etc/machine-id && ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub

**Fix:** Generate both again on all nodes but one. In the image, empty /etc/machine-id and delete
the host keys.

**Source:** machine-id(5); systemd.network(5), DUIDType
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding, join_names

MACHINE_ID, HOST_KEYS = "machine-id", "ssh host keys"


DIGEST = 12  # of a machine-id's digest, to compare by eye


RENEWALS = {
    MACHINE_ID: "rm /etc/machine-id && systemd-machine-id-setup && reboot",
    HOST_KEYS: "rm /etc/ssh/ssh_host_* && ssh-keygen -A, then restart sshd and add its new keys to known_hosts",
}


def group_shared_identity(evidence: ClusterEvidence) -> dict[tuple[str, ...], dict[str, list[str]]]:
    """Map groups of nodes to the kinds of identity that they share, and these to digests."""
    held: dict[tuple[str, str], list[str]] = {}
    for name in evidence.nodes:
        own = evidence.survey(name).get("identity")
        if own and own["machine_id"]:
            held.setdefault((MACHINE_ID, own["machine_id"][:DIGEST]), []).append(name)
        for key in own["host_keys"] if own else ():
            held.setdefault((HOST_KEYS, key), []).append(name)
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (what, digest), names in held.items():
        if len(names) > 1:
            found.setdefault(tuple(names), {}).setdefault(what, []).append(digest)
    return found


def rule_cloned_nodes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes that share a machine-id or ssh host keys, one finding per image that they were copied from."""
    for names, shared in group_shared_identity(evidence).items():
        digests = join_names([digest for held in shared.values() for digest in held])
        steps = [command for what, command in RENEWALS.items() if what in shared]
        yield Finding(
            "DG-162",
            "L1",
            f"{join_names(names)} have one {join_names(list(shared))}: they were copied from one image",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            seen=digests,
            expected=f"{join_names(list(shared))} of its own on each node",
            fix=f"on {join_names(names[1:])}: {'; '.join(steps)}",
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-162",
    __doc__,
    find=rule_cloned_nodes,
    needs=("identity",),
    severity=WARNING,
    weight=180,
    cases=(
        CauseCase(
            "one-image", "the machine-id and the host key of the one node's files on the other, too"
        ),
    ),
)
