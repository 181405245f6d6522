"""Cases of HG-163."""

from __future__ import annotations

import slow_jobs

from causes.job_faults import (
    CPU,
    MAKE_GROUPS,
    MOUNT_FILES,
    REMOVE_GROUPS,
    SERVED_FOLDER,
    SERVER,
    JobFault,
)

SAMPLES = ("--samples", "4")
SECONDS = 8.0  # of collectives
MOUNT_SLOW = MOUNT_FILES.replace(f"{SERVER} {SERVED_FOLDER} >", f"{SERVER} {SERVED_FOLDER} 0.04 >")

JOB_FAULTS = (
    JobFault(
        "slow",
        "one rank sleeps for 40 ms in each step",
        slow_jobs.JOBS["slow_sleep"].script,
        "HG-163",
        (1,),
        "time.sleep(0.04)",
        settle=SECONDS,
        options=SAMPLES,
        expected=("rank 0 waits", "it sleeps"),
    ),
    JobFault(
        "slow_loader",
        "one rank's DataLoader is slow",
        slow_jobs.JOBS["slow_loader"].script,
        "HG-163",
        (1,),
        "for batch in DataLoader",
        files=slow_jobs.JOBS["slow_loader"].files,
        settle=SECONDS,
        options=SAMPLES,
        expected=("DataLoader",),
    ),
    JobFault(
        "slow_quota",
        "a control group that gives one rank a fifth of a CPU, and the job continues",
        slow_jobs.JOBS["slow_quota"].script,
        "HG-163",
        (1,),
        prepares=MAKE_GROUPS,
        breaks=f"cd {CPU}/fullmesh-hang; echo 100000 > cpu.cfs_period_us; echo 20000 > cpu.cfs_quota_us; "
        "echo $PID > cgroup.procs",
        undo=REMOVE_GROUPS,
        settle=SECONDS,
        options=SAMPLES,
        expected=("0.2 CPUs",),
    ),
    JobFault(
        "slow_files",
        "one rank reads each batch from slow storage",
        slow_jobs.JOBS["slow_files"].script.replace(slow_jobs.FILES, SERVED_FOLDER),
        "HG-163",
        (1,),
        "file.read(4096)",
        prepares=MOUNT_SLOW,
        undo=f"pkill -KILL -f '[/]{SERVER[1:]}'; umount -l {SERVED_FOLDER}",
        settle=SECONDS,
        options=SAMPLES,
        expected=("a file system in user space",),
    ),
    JobFault(
        "slow_child",
        "one rank starts a program in each step and waits for it",
        slow_jobs.JOBS["slow_child"].script,
        "HG-163",
        (1,),
        "subprocess.run",
        settle=SECONDS,
        options=SAMPLES,
        expected=("child process",),
    ),
)
