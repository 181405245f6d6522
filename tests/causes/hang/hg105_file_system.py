"""Cases of HG-105."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import DISK_STATE, NFS, native

from causes.job_faults import (
    DISK,
    MAKE_DISK,
    MOUNT_FILES,
    REMOVE_DISK,
    SERVED_FOLDER,
    SERVER,
    JobFault,
)

JOB_CHANGES = {
    "NFS does not answer": (["HG-105"], "late_sleep", native(1, **NFS)),
    "a disk does not answer": (["HG-105"], "late_save", native(0, **DISK_STATE)),
}
LAB_JOBS = {
    "disk": ("HG-105", (1,), "waits for a disk or file system that does not answer", "state D"),
}
JOB_FAULTS = (
    JobFault(
        "disk",
        "a file system that takes no writes (frozen)",
        MAIN
        + f"go()\nif rank == 1:\n    log = open('{DISK}/log', 'wb', buffering=0)\n    log.write(b'step')\n"
        + "dist.all_reduce(grads)\n",
        "HG-105",
        (1,),
        "log",
        prepares=MAKE_DISK,
        breaks=f"fsfreeze -f {DISK}",
        undo=REMOVE_DISK,
        record=True,
    ),
    JobFault(
        "stalled_files",
        "a file system in user space whose daemon is stopped",
        MAIN
        + f"stream = open('{SERVED_FOLDER}/batch', 'rb', buffering=0) if rank else None\ngo()\n"
        + "if stream:\n    stream.read(4096)\ndist.all_reduce(grads)\n",
        "HG-105",
        (1,),
        "stream.read",
        prepares=MOUNT_FILES,
        breaks=f"pkill -STOP -f '[/]{SERVER[1:]}'",
        undo=f"pkill -KILL -f '[/]{SERVER[1:]}'; umount -l {SERVED_FOLDER}",
        expected=("a file system in user space (FUSE)", f"{SERVED_FOLDER}/batch"),
    ),
)
