"""a mount, or the size of /dev/shm, will not outlive the next boot (warning)

A shared file system that was mounted by hand, or a /dev/shm that was made larger with mount -o remount, is as before
after a reboot: the job does not find its data, or NCCL and the DataLoader their shared memory.

**Prove:** findmnt --fstab; findmnt -t nfs,nfs4,lustre,ceph,tmpfs

**Fix:** A line in /etc/fstab, with _netdev,nofail for what comes over the network.

**Source:** fstab(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-167",
    __doc__,
    severity=WARNING,
    weight=50,
    cases=(CauseCase("boot-mount", "an NFS mount that no file has", by=RECORDED),),
)
