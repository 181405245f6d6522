"""A mount, or the size of /dev/shm, will be lost at the next boot (warning)

A file system that was mounted by hand is missing after a reboot, and a /dev/shm that was enlarged
with mount -o remount has its old size. The job then does not find its data, or NCCL and the
DataLoader lack shared memory.

**Prove:** findmnt --fstab && findmnt -t nfs,nfs4,lustre,ceph,tmpfs

**Fix:** Add a line to /etc/fstab. For network file systems, use the options _netdev,nofail.

**Source:** fstab(5)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding

SHM = "/dev/shm"  # noqa: S108 (a mount point's name)


AUTOFS = "autofs"


def rule_boot_mounts(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report shared file systems that the next boot does not mount."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name)
        known = {one["point"] for one in held.get("mounts_kept", [])}
        now = held.get("mounts", [])
        roots = [one["point"].rstrip("/") + "/" for one in now if one["kind"] == AUTOFS]
        for one in now:
            by_itself = one["kind"] == AUTOFS or f"{one['point']}/".startswith(tuple(roots))
            if one["point"] != SHM and one["point"] not in known and not by_itself:
                yield make_boot_warning(
                    "DG-167",
                    f"{one['point']} of {name} will not be mounted after the next boot",
                    name,
                    seen=f"{one['what']} ({one['kind']}), in no fstab, mount unit or automounter",
                    expected=f"a line for {one['point']} in /etc/fstab",
                    check=f"on {name}: findmnt -n -o SOURCE,TARGET,FSTYPE,OPTIONS {one['point']}",
                    fix=f"on {name}: add that line to /etc/fstab, with the options _netdev,nofail",
                )


def rule_boot_shm(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a /dev/shm whose size the next boot changes. In a container, the host sets it."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name)
        now = next((m["size"] for m in held.get("mounts", []) if m["point"] == SHM), 0)
        kept_lines = [m for m in held.get("mounts_kept", []) if m["point"] == SHM]
        later = kept_lines[-1]["size"] if kept_lines else 0
        if now and now != later and not held.get("container"):
            yield make_boot_warning(
                "DG-167",
                f"{SHM} of {name} will have another size after the next boot",
                name,
                seen=f"{now} bytes",
                expected=f"{later} bytes ({kept_lines[-1]['source']})"
                if later
                else "half of the memory: no file names a size",
                fix=f"on {name}: add this line to /etc/fstab: tmpfs {SHM} tmpfs defaults,size={now} 0 0",
            )


def rule_any_mount_gone(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Run both rules of this cause."""
    yield from rule_boot_mounts(evidence)
    yield from rule_boot_shm(evidence)


CAUSE = Cause(
    "DG-167",
    __doc__,
    find=rule_any_mount_gone,
    needs=("next_boot",),
    severity=WARNING,
    weight=50,
    cases=(CauseCase("boot-mount", "an NFS mount that no file has", by=RECORDED),),
)
