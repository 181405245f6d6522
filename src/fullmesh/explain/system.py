"""What the kernel, CUDA and the limits of a node say; job logs and journals often stand in one file."""

from __future__ import annotations

from fullmesh.explain.derive import describe_port_range
from fullmesh.explain.model import ExplainOptions, Fields, LogCause, Pattern
from fullmesh.observed.ports import HIGHEST_PORT


def derive_blocked_port(fields: Fields, options: ExplainOptions) -> Fields | None:
    """A packet that a firewall logged."""
    port = int(fields["port"])
    return (
        {**fields, "range_note": describe_port_range(port, options)}
        if port <= HIGHEST_PORT
        else None
    )


CAUSES = (
    LogCause(
        code="LG-501",
        title="the kernel or the cgroup killed a process for want of memory",
        says="The out-of-memory killer ended a process ({detail}).",
        where="the node of this log",
        prove="journalctl -k --since -1d | grep -i -E 'oom|killed process'; systemctl show UNIT -p MemoryMax",
        fix="More memory for the unit, pod or job; fewer DataLoader workers, smaller batches.",
        source="kernel mm/oom_kill.c; Slurm's and Kubernetes' own words",
        looks=(
            "kernel: Out of memory: Killed process 14750 (python3) total-vm:81920000kB",
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks"
                " have been OOM Killed."
            ),
        ),
        patterns=(
            Pattern("Killed process", r"(?P<detail>Killed process \d+ \([^)]{1,40}\))"),
            Pattern("oom_kill event", r"(?P<detail>Detected \d+ oom[_-]kill events?)"),
            Pattern("OOMKilled", r"(?P<detail>OOMKilled)(?!\"?\s*:\s*false)"),
            Pattern(
                "srun: error: ",
                r"srun: error: (?P<detail>\S{1,80}: tasks? \S{1,40}: Out Of Memory)",
            ),
            Pattern(
                "A process of this unit has been killed by the OOM killer",
                r"(?P<detail>by the OOM killer)",
            ),
        ),
        weight=96,
    ),
    LogCause(
        code="LG-502",
        title="the connection tracking table is full",
        says="The kernel drops new connections because its connection tracking table is full.",
        where="the node of this log",
        prove="sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        fix="Raise nf_conntrack_max (kernel_tuning_sysctls), or exempt the cluster's ports from tracking.",
        source="kernel nf_conntrack_core.c",
        looks=("kernel: nf_conntrack: nf_conntrack: table full, dropping packet",),
        patterns=(
            Pattern("table full, dropping packet", r"conntrack: table full, dropping packet"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-503",
        title="the neighbour (ARP) table is full",
        says="The kernel's neighbour table overflows: more peers than net.ipv4.neigh.default.gc_thresh3 allows.",
        where="the node of this log",
        prove="ip neigh | wc -l; sysctl net.ipv4.neigh.default.gc_thresh3",
        fix="Raise gc_thresh1, 2 and 3 (kernel_tuning_sysctls) to a multiple of the cluster's size.",
        source="measured: 64 hosts, exactly 1024 of 4032 connections worked with gc_thresh3=1024",
        looks=("kernel: neighbour: arp_cache: neighbor table overflow!",),
        patterns=(Pattern("neighbor table overflow"), Pattern("eighbour table overflow")),
        weight=90,
    ),
    LogCause(
        code="LG-504",
        title="too few file descriptors",
        says="A process ran out of file descriptors (Too many open files).",
        where="the node of this log, in the job's unit or container",
        prove="in the job's environment: ulimit -n; ./fullmesh verify -i INVENTORY (VC-105)",
        fix=(
            "kernel_tuning_nofile; LimitNOFILE in the unit;"
            " torch.multiprocessing.set_sharing_strategy('file_system') for DataLoaders."
        ),
        source="measured: 24 descriptors gave '9/16 clients joined' and never this message; NVIDIA/nccl#550",
        looks=("OSError: [Errno 24] Too many open files: '/dev/null'",),
        patterns=(Pattern("Too many open files"), Pattern("too many open files")),
        weight=88,
    ),
    LogCause(
        code="LG-515",
        title="too few processes or threads are allowed",
        says=(
            "A process could not start another thread or process ({detail}): the limit of the account (ulimit -u), of"
            " the container (pids) or of the unit (TasksMax) is reached."
        ),
        where="the node of this log, in the job's account, unit or container",
        prove="in the job's environment: ulimit -u; cat /sys/fs/cgroup/pids.max; ps -eLf | wc -l",
        fix="Raise it: ulimit -u, TasksMax in the unit, --pids-limit of the container; or OMP_NUM_THREADS=1.",
        source="vllm-project/vllm#6295; read: errno EAGAIN of clone(2)",
        looks=(
            "E0710 15:24:06.605366961 2474524 thd.cc:157] pthread_create failed: Resource temporarily unavailable",
            "RuntimeError: can't start new thread",
            "bash: fork: retry: Resource temporarily unavailable",
        ),
        patterns=(
            Pattern(
                "pthread_create",
                r"(?P<detail>pthread_create)\W.{0,80}(?:[Rr]esource temporarily unavailable|failed)",
            ),
            Pattern("start new thread", r"(?P<detail>can't start new thread)"),
            Pattern(
                "fork: ",
                r"(?P<detail>fork): (?:retry: )?(?:Resource temporarily unavailable|No child processes)",
            ),
            Pattern("Thread creation failed", r"(?P<detail>libgomp: Thread creation failed)"),
            Pattern("annot fork", r"(?P<detail>[Cc]annot fork)"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-516",
        title="CUDA: an access to another GPU's memory failed (contained error)",
        says=(
            "CUDA reports a contained error: a kernel accessed memory of another GPU over NVLink that it may not, or"
            " the link or a GPU failed. The process has to end."
        ),
        where="the node of this log; in an NVLink domain of several nodes (IMEX) also the peer's",
        prove="journalctl -k | grep -i xid on all nodes of the NVLink domain; nvidia-smi nvlink -s; nvidia-imex-ctl -N",
        fix=(
            "With an Xid in the kernel's log: treat it as LG-506. Without one, the library that made the kernel is"
            " wrong (DeepEP, XLA, NVSHMEM): use another version or its standard NCCL path."
        ),
        source="read: CUDA's list of errors (226); marin-community/marin#8870",
        looks=(
            "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a hardware error",
        ),
        patterns=(
            Pattern("CUDA_ERROR_CONTAINED"),
            Pattern("nvalid access of peer GPU memory over nvlink"),
        ),
        weight=86,
    ),
    LogCause(
        code="LG-505",
        title="the disk is full",
        says="A disk or quota is full ({detail}).",
        where="the node of this log",
        prove="df -h; df -i; quota -s",
        fix="Free space, or write checkpoints and logs elsewhere.",
        source="errno 28 and 122",
        looks=("OSError: [Errno 28] No space left on device",),
        patterns=(
            Pattern(
                "No space left on device",
                r"\[Errno 28\] (?P<detail>No space left on device)(?!.{0,80}/dev/shm)",
            ),
            Pattern("Disk quota exceeded", r"(?P<detail>Disk quota exceeded)"),
        ),
        weight=87,
    ),
    LogCause(
        code="LG-506",
        title="a GPU failed (Xid, ECC)",
        says="The driver reports a failing GPU ({detail}).",
        where="the node of this log",
        prove="journalctl -k | grep -i xid; nvidia-smi -q -d ECC,PAGE_RETIREMENT; dcgmi diag -r 2",
        fix="Take the node out of the inventory, reset or replace the GPU.",
        source="NVIDIA's list of Xid errors",
        looks=("kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",),
        patterns=(
            Pattern("NVRM: Xid", r"(?P<detail>Xid \(PCI:[\w:.]{1,20}\): \d+)"),
            Pattern("uncorrectable ECC error", r"(?P<detail>uncorrectable ECC error)"),
            Pattern(
                "GPU has fallen off the bus", r"(?<!Xid)(?P<detail>GPU has fallen off the bus)"
            ),
        ),
        weight=94,
    ),
    LogCause(
        code="LG-507",
        title="SELinux denied something",
        says="SELinux denied {detail}.",
        where="the node of this log",
        prove="ausearch -m avc -ts recent | audit2why",
        fix="Label the files or ports as the message of audit2why says; selinux_mode: permissive for a test only.",
        source="read: kernel audit messages",
        looks=(
            'audit: type=1400 audit(1700000000.1:2): avc:  denied  { name_bind } for  pid=1 comm="python3" src=29500',
        ),
        patterns=(Pattern("avc:  denied", r"avc:  denied  (?P<detail>\{ [^}]{1,60}\}.{0,60})"),),
        key=("detail",),
        weight=67,
    ),
    LogCause(
        code="LG-508",
        title="a firewall logged that it drops the job's packets",
        says="The firewall of this node blocked TCP from {peer} to {target} port {port}.",
        where="{target} (interface {interface})",
        prove=(
            "on that node: nft list ruleset; firewall-cmd --get-active-zones; ./fullmesh verify"
            " -i INVENTORY (VC-201, VC-202)"
        ),
        fix=(
            "./fullmesh apply -i INVENTORY --tags firewall; rules of another table still drop"
            " what firewalld accepts."
        ),
        source=(
            "firewalld's LogDenied, ufw's log; measured: accept in one base chain does not save"
            " from drop in another"
        ),
        looks=(
            (
                "kernel: filter_IN_public_REJECT: IN=eth1 OUT= MAC=00 SRC=10.77.0.12 DST=10.77.0.11"
                " LEN=60 PROTO=TCP SPT=41000 DPT=50123 WINDOW=64240"
            ),
            (
                "kernel: [UFW BLOCK] IN=eth1 OUT= MAC=00 SRC=10.77.0.12 DST=10.77.0.11 LEN=60"
                " PROTO=TCP SPT=41000 DPT=29500"
            ),
        ),
        patterns=(
            Pattern(
                "PROTO=TCP",
                r"(?:REJECT|DROP|BLOCK|DENY|denied)[^=]{0,40}IN=(?P<interface>\S{1,16})"
                r" .{0,200}?SRC=(?P<peer>\S{1,45}) DST=(?P<target>\S{1,45})"
                r" .{0,200}?PROTO=TCP .{0,60}?DPT=(?P<port>\d{1,5})",
            ),
        ),
        key=("peer", "target"),
        derive=derive_blocked_port,
        needs=(
            "LG-101",
            "LG-102",
            "LG-103",
            "LG-104",
            "LG-105",
            "LG-201",
            "LG-202",
            "LG-203",
            "LG-205",
            "LG-402",
            "LG-403",
            "LG-404",
            "LG-405",
        ),
        weight=93,
    ),
    LogCause(
        code="LG-509",
        title="a GPU ran out of memory",
        says="A rank ran out of GPU memory{detail}.",
        where="the rank of this log",
        prove="nvidia-smi on that node (does another process hold memory?)",
        fix="A smaller batch, activation checkpointing, sharding; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        source="read: c10's CUDACachingAllocator",
        looks=(
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a"
                " total capacity of 79.10 GiB"
            ),
        ),
        patterns=(
            Pattern(
                "CUDA out of memory",
                r"Error: CUDA out of memory\.?(?P<detail>(?: Tried to allocate [\d.]+ \w+)?)",
            ),
            Pattern("Cuda failure", r"NCCL WARN Cuda failure (?:\d+ )?'out of memory'(?P<detail>)"),
        ),
        weight=91,
    ),
    LogCause(
        code="LG-510",
        title="the NVIDIA driver does not fit, or there is none",
        says="CUDA cannot work on this node: {detail}.",
        where="the node of this log",
        prove="on that node: nvidia-smi; python -c 'import torch; print(torch.version.cuda)'",
        fix="Install a driver that is new enough for torch's CUDA, the same on all nodes.",
        source="read: CUDA runtime's messages",
        looks=(
            "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        ),
        patterns=(
            Pattern(
                "driver version is insufficient",
                r"(?P<detail>CUDA driver version is insufficient for CUDA runtime version)",
            ),
            Pattern("Found no NVIDIA driver", r"(?P<detail>Found no NVIDIA driver)"),
            Pattern(
                "NVIDIA driver on your system is too old",
                r"(?P<detail>The NVIDIA driver on your system is too old)",
            ),
        ),
        weight=91,
    ),
    LogCause(
        code="LG-512",
        title="the fabric manager does not run, so no GPU of the node works",
        says=(
            "CUDA says that the system is not ready (error 802): the GPUs hang on NVSwitches, and NVIDIA's fabric"
            " manager does not run or has another version than the driver."
        ),
        where="the node of this log",
        prove=(
            "on that node: systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric;"
            " ./fullmesh verify -i INVENTORY (VC-147)"
        ),
        fix=(
            "Install and enable nvidia-fabricmanager in exactly the driver's version: role nvidia_driver does, on"
            " machines with NVSwitches."
        ),
        source="pytorch/pytorch#35710; CUDA's cudaErrorSystemNotReady",
        looks=(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling"
            " NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
        ),
        patterns=(
            Pattern("system not yet initialized"),
            Pattern("CUDA_ERROR_SYSTEM_NOT_READY"),
            Pattern("cudaErrorSystemNotReady"),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-513",
        title="the NVIDIA driver's library was updated under the loaded module",
        says=(
            "NVML of one version met the kernel module of another: the driver was updated (an unattended upgrade?) and"
            " the old module is still loaded, or the container brings a driver library of its own."
        ),
        where="the node of this log",
        prove="on that node: cat /proc/driver/nvidia/version; ls -l /lib/*/libnvidia-ml.so.1; last reboot",
        fix=(
            "Reboot, or unload and load the nvidia modules with nothing using them; nvidia_driver_hold keeps"
            " unattended upgrades away from the driver."
        ),
        source="illinois-scicomp/machine-shop-maintenance#60, yahoo/TensorFlowOnSpark#51",
        looks=("Failed to initialize NVML: Driver/library version mismatch",),
        patterns=(
            Pattern("river/library version mismatch"),
            Pattern("RM has detected an NVML/RM version mismatch"),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-514",
        title="torch, or an extension, has no code for this GPU",
        says=(
            "The program has no code for the architecture of this node's GPU: torch's wheel (or an extension that was"
            " built elsewhere) is older than the GPU, or the GPU is older than the wheel still serves."
        ),
        where="the Python environment of the node of this log",
        prove=(
            "python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'"
        ),
        fix=(
            "A torch whose wheel has the architecture (torch_runtime_accelerator chooses the CUDA), the same on all"
            " nodes; build extensions with TORCH_CUDA_ARCH_LIST."
        ),
        source="read: CUDA's cudaErrorNoKernelImageForDevice; facebookresearch/detectron2#512",
        looks=(
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        ),
        patterns=(Pattern("no kernel image is available for execution"),),
        weight=92,
    ),
    LogCause(
        code="LG-511",
        title="the kernel drops packets that come by another way than answers go (reverse path filter)",
        says=(
            "The kernel saw packets from {peer} on {interface} that it would answer elsewhere"
            " (martian source): rp_filter=1 drops them."
        ),
        where="the node of this log",
        prove="ip route get {peer}; sysctl net.ipv4.conf.all.rp_filter; nstat -az TcpExtIPReversePathFilter",
        fix="Both nodes on one network per interface (fullmesh_links: routes), or rp_filter=2.",
        source="measured: two NICs and rp_filter=1 look like DROP; NVIDIA/nccl#1581",
        looks=("kernel: IPv4: martian source 10.77.0.11 from 10.77.0.12, on dev eth1",),
        patterns=(
            Pattern(
                "martian source",
                r"martian source \S{1,45} from (?P<peer>[\d.]{7,15}), on dev (?P<interface>\S{1,16})",
            ),
        ),
        key=("peer",),
        weight=85,
    ),
)
