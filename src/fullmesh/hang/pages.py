"""Pages of the codes of hanging jobs, for the site and ``explain``.

One text a code and nothing that decides anything.
"""

from __future__ import annotations

from fullmesh.causes.engine import CausePage
from fullmesh.hang.codes import CODES

PATH = "docs/causes/hang.md"
STACK = "py-spy dump --pid PID on that rank's node, twice, some seconds apart"
KERNEL = "cat /proc/PID/stat /proc/PID/wchan /proc/PID/syscall"
RECORDED = "recorded of Gloo jobs with torch 2.13"
LAB = "a Gloo job on lab nodes (tests/hang)"
CHANGED = "a recorded Gloo job, with this one thing changed: no machine here can make it"
PAGES: dict[str, CausePage] = {
    "HG-101": CausePage(
        "A collective begins when all ranks of its group have entered it. This one has not: its main thread runs the "
        "user's own code at the line that is named, and the others wait there for as long as it takes.",
        STACK,
        "Look at the line: a loop that does not end, a file or server that is asked without a timeout, work that only "
        "this rank has (`if rank == 0:`). If it is meant to take so long, give the process group a longer timeout.",
        RECORDED,
    ),
    "HG-102": CausePage(
        "A rank reads its terminal: input(), breakpoint(), a tool's question (`Overwrite? [y/n]`). Under torchrun or "
        "Slurm nobody sees the question.",
        KERNEL + "; descriptor 0 is standard input",
        "Answer it if the rank has a terminal. Take the call out, or start the job with `< /dev/null`, so that it "
        "fails at once.",
        RECORDED,
    ),
    "HG-103": CausePage(
        "A rank is in torch.save, torch.load, safetensors or torch.distributed.checkpoint, and the others have gone on "
        "to the next collective. Usual on rank 0, which alone writes.",
        STACK + "; df -h; iostat -x 1",
        "A faster or emptier disk; async_save of torch.distributed.checkpoint; a timeout of the process group above "
        "the slowest checkpoint's time.",
        RECORDED,
    ),
    "HG-104": CausePage(
        "The main thread waits for a batch and the DataLoader's worker processes bring none: they read from something "
        "slow, or one has died, or hangs in a lock that it got by fork.",
        "py-spy dump --pid of the rank's children; dmesg | grep -i oom",
        "DataLoader(timeout=60) turns the wait into an error that names the worker; more memory in /dev/shm; "
        "multiprocessing_context='spawn' where libraries with threads are used before the fork.",
        RECORDED,
    ),
    "HG-105": CausePage(
        "State D: the process waits inside the kernel for a disk, a file system or an NFS server, and takes no signal "
        "until that answers. The function of the kernel that it sleeps in (wchan) begins with nfs, rpc or xprt where "
        "it is NFS, and is request_wait_answer where it is a file system in user space (FUSE: sshfs, JuiceFS, S3), for "
        "which the process waits in state S.",
        KERNEL + "; journalctl -k | grep -E 'not responding|blocked for more than'",
        "Bring the server or disk back: the process goes on by itself. Mount datasets with `soft,timeo=...` only where "
        "a failed read is better than a wait.",
        LAB,
    ),
    "HG-106": CausePage(
        "State T or t: SIGSTOP, Ctrl-Z or a debugger stopped the process. It can say nothing for itself; the kernel "
        "shows it.",
        "ps -o pid,stat,wchan -p PID; grep TracerPid /proc/PID/status",
        "kill -CONT PID, or leave the debugger.",
        RECORDED,
    ),
    "HG-107": CausePage(
        "The main thread is in time.sleep: it waits for something by looking now and then, and that does not come.",
        STACK,
        "Find out what the loop around that line waits for; give it a deadline and a message.",
        RECORDED,
    ),
    "HG-108": CausePage(
        "The main thread wants a lock, a queue or an event that another thread of the same process has to give. Two "
        "threads that hold one lock each and want the other's wait for ever; the places of both are named.",
        STACK,
        "Take locks in one order everywhere; hold none across a join, a queue or a collective.",
        RECORDED,
    ),
    "HG-109": CausePage(
        "Python's cyclic garbage collector runs when it likes, on each rank at another moment, and with millions of "
        "objects it takes seconds.",
        "py-spy dump --native --pid PID shows gc_collect_main",
        "gc.freeze() after the model and the data are there; gc.disable(), and gc.collect() on all ranks in one step.",
        CHANGED,
    ),
    "HG-110": CausePage(
        "The record says that the rank has not come to the collective. What it does instead only a stack of its main "
        "thread tells; a dump of the Flight Recorder has none.",
        STACK,
        "Take a stack while the job still stands.",
        RECORDED,
    ),
    "HG-111": CausePage(
        "A collective on GPUs is queued behind what the rank started before. Where the others' GPUs have begun it and "
        "this one's has not, a kernel in front of it does not end: one of the user's own, or another group's "
        "collective on another stream. States beyond `scheduled` are there with TORCH_NCCL_ENABLE_TIMING=1 alone.",
        "nvidia-smi (100 % on that GPU with little power); cuda-gdb or py-spy dump --native --pid PID",
        "CUDA_LAUNCH_BLOCKING=1 on that rank stops at the kernel's own line.",
        CHANGED,
    ),
    "HG-112": CausePage(
        "A control group (systemd's CPUQuota, docker's --cpus, a scheduler's share) lets the rank run for a part of "
        "the time only, and in each period it is stopped until the next. Between two looks that was so in most "
        "of its periods (nr_throttled and nr_periods of cpu.stat).",
        "cat /proc/PID/cgroup, then cpu.max and cpu.stat of that folder below /sys/fs/cgroup, twice",
        "Lift the limit, or give all ranks the same; fewer DataLoader workers where they share it.",
        LAB,
    ),
    "HG-113": CausePage(
        "A file is the lock: torch makes one before it compiles an extension (DeepSpeed's parts, one's own load()), "
        "and whoever comes later waits until it is gone, without a word and without an end. A start that is killed "
        "meanwhile leaves it behind, and every later start waits for nobody.",
        "ls -l --time-style=+%T ~/.cache/torch_extensions/*/*/lock; pgrep -a 'ninja|nvcc|cc1plus'",
        "Remove the lock where nobody compiles; on folders that nodes share, compile once before the job starts.",
        RECORDED,
    ),
    "HG-114": CausePage(
        "The node has too little memory, and the kernel has put some of the rank's into swap. Whatever it touches has "
        "to be read back, thousands of times more slowly than memory is; the process is mostly in state D. Between two "
        "looks a disk brought it 50 pages a second or more (majflt), while some of it lay in swap (VmSwap).",
        "grep VmSwap /proc/PID/status; vmstat 1 (columns si and so); free -h",
        "Find who has the memory: more DataLoader workers than thought, a cached data set, another job. Training "
        "nodes do well without swap, or with MemorySwapMax=0 on the job's unit: then it ends with a name.",
        CHANGED,
    ),
    "HG-121": CausePage(
        "What has the same number in a group has to be the same call on all its ranks. Once one rank has called one "
        "more, or another, all that follows is shifted: the first number at which they differ is where to look.",
        "The two lines that are named; TORCH_DISTRIBUTED_DEBUG=DETAIL compares every call, slowly",
        "No collective below `if rank == ...` or inside a loop whose length depends on the rank's data.",
        RECORDED,
    ),
    "HG-122": CausePage(
        "NCCL waits for bytes that never come; Gloo aborts the rank that gets more than it expects and lets the other "
        "wait. Only the number of elements counts, not the shape.",
        "print the tensor's shape on each rank before the line that is named",
        "Pad, drop the last batch (drop_last=True), or send the sizes first (all_gather_object).",
        RECORDED,
    ),
    "HG-123": CausePage(
        "Elements of different sizes are different numbers of bytes, see HG-122; of the same size they are added as if "
        "they were of the other type, and the result is wrong without a word.",
        "print the tensor's dtype on each rank before the line that is named",
        "One dtype on all ranks: autocast, .half() and checkpoints are the usual reasons.",
        CHANGED,
    ),
    "HG-124": CausePage(
        "Two groups have ranks in common. One rank is in the first group's collective and waits for another rank, "
        "which is in the second group's and waits for the first. Tensor and pipeline parallelism make such groups.",
        "The two lines that are named",
        "One order of the groups' collectives on all ranks; with NCCL also for those that are started asynchronously.",
        RECORDED,
    ),
    "HG-131": CausePage(
        "A rank whose data are used up leaves the loop, and the others wait for it in the next step. With Gloo they "
        "get `Connection closed by peer` when its process ends; with NCCL, or where a thread keeps the process alive, "
        "they wait.",
        "print the number of batches on each rank",
        "DistributedSampler(drop_last=True) or equal shards; torch.distributed.algorithms.join.Join([model]) for "
        "uneven ones.",
        RECORDED,
    ),
    "HG-132": CausePage(
        "A process that is ended by a signal says nothing. SIGKILL is the kernel's when memory is short, SIGABRT a "
        "library's own, SIGSEGV and SIGBUS defects or a full /dev/shm.",
        "journalctl -k | grep -i -E 'oom|killed'; coredumpctl list",
        "Less memory a rank, or what the rank's own output says.",
        RECORDED,
    ),
    "HG-133": CausePage(
        "One rank raised and the others know nothing of it. torchrun ends all of them when a process ends; a thread "
        "that is not a daemon, or a cleanup that waits (destroy_process_group, a barrier in `finally:`), keeps it "
        "alive.",
        "The rank's own output, which has the traceback",
        "Fix what raised. Threads of one's own: daemon=True; no collective in `finally:`.",
        RECORDED,
    ),
    "HG-134": CausePage(
        "A rank found its connection to another one closed or reset: an echo of the other's end. It stands at the top "
        "only where no other rank is known to have ended.",
        "The other ranks' outputs",
        "Look for the rank that ended first; where none did: ./fullmesh diagnose -i INVENTORY.",
        RECORDED,
    ),
    "HG-135": CausePage(
        "torchrun, srun and mpirun send SIGTERM to all other ranks when one has failed, schedulers when time is up. "
        "It stands at the top only where no rank is known to have ended before.",
        "The launcher's own output; sacct -j JOB",
        "Look for the rank that ended first.",
        CHANGED,
    ),
    "HG-141": CausePage(
        "A send of more than a few bytes comes back when it is received. The other side is somewhere else, or receives "
        "with another tag, in another group, or from another rank.",
        STACK,
        "The same pair, tag and group on both sides, in one order; batch_isend_irecv where both sides send.",
        RECORDED,
    ),
    "HG-142": CausePage(
        "A receive waits for what nobody sends.",
        STACK,
        "As for HG-141.",
        RECORDED,
    ),
    "HG-143": CausePage(
        "A rank that is not in a group has rank -1 in it. torch then raises (`Global rank 2 is not part of group`, "
        "`Invalid process group specified`) or warns and returns at once (`which does not belong to the given "
        "group`), and the group's own ranks wait.",
        "print(torch.distributed.get_process_group_ranks(group)) on a rank that is in it",
        "Let only the group's ranks call its collectives. src and dst are numbers in the job.",
        RECORDED,
    ),
    "HG-144": CausePage(
        "new_group is called by all ranks of the job, in one order, also by those that will not be in the group. Those "
        "who are in it wait there for each other.",
        STACK,
        "Take the call out from below `if rank ...`.",
        RECORDED,
    ),
    "HG-151": CausePage(
        "Without a record of a rank its part is unknown: the node does not answer, the process holds Python's own lock "
        "inside a library, or its dump was not given. What the others say still counts.",
        STACK,
        "The missing dumps; ./fullmesh diagnose -i INVENTORY for a node that does not answer.",
        RECORDED,
    ),
    "HG-152": CausePage(
        "Any account can start a process that says that it is a rank. Fullmesh reads each of them by itself and in "
        "bounds. It leaves out a process whose numbers cannot be, that cannot be read in time, or that is one of more "
        "than 512 of its account on a node. The answer about all other processes is whole.",
        "ps -o user,pid,args -p PID on the node; fullmesh-hang there names them as well",
        "If it is your job, correct its variables and options (RANK, WORLD_SIZE, --nproc-per-node). If it is not, ask "
        "its owner.",
    ),
    "HG-161": CausePage(
        "All ranks of the group have entered the same collective, with the same sizes and types, and it does not end. "
        "So no rank is to blame: a link drops packets, a card lost its carrier, a GPU or its driver stands.",
        "./fullmesh diagnose -i INVENTORY, beside the job; ss -tin shows retransmits; journalctl -k | grep Xid",
        "What the diagnosis names.",
        RECORDED,
    ),
    "HG-162": CausePage(
        "Between two looks every rank entered more collectives. The job works; a step may be long.",
        "./fullmesh explain-log with records that are taken again",
        "Nothing.",
        RECORDED,
    ),
    "HG-163": CausePage(
        "All others wait for one and the same rank at nearly every look, and go on when it comes: the job is as fast "
        "as that rank.",
        STACK + "; top, iostat and nvidia-smi beside another node's",
        "What is different on its node, or in its share of the data.",
        RECORDED,
    ),
    "HG-164": CausePage(
        "No collective of the recorder is open, and all ranks stand at the same lines as before: they wait for "
        "something that is none of them (a file, a server, a terminal), or for each other in sends and receives, which "
        "Gloo's recorder does not keep.",
        STACK,
        "What that line waits for.",
        RECORDED,
    ),
    "HG-171": CausePage(
        "A pickle can run any program when it is unpickled. torch's dumps hold plain data alone (dicts, lists, texts, "
        "numbers), and only instructions for these are read here; this file has another one.",
        "python -m pickletools FILE prints what it would do, without doing it",
        "Ask where the file is from. Do not open it with torch's own tools, which unpickle it.",
        "torch.distributed.flight_recorder, which calls pickle.load",
    ),
    "HG-172": CausePage(
        "Such a file would need more memory or time than a record of the largest buffer.",
        "ls -l FILE",
        "A record of fewer entries: TORCH_FR_BUFFER_SIZE=2000.",
    ),
    "HG-173": CausePage(
        "The rank was ended while it wrote, or the file was copied before it was whole.",
        "tail -c 100 FILE",
        "Copy it again; another dump of that rank.",
    ),
    "HG-174": CausePage(
        "The file is JSON or a pickle of plain data, without what a record has, or of a newer torch.",
        "head -c 300 FILE",
        "torch's own dumps of form 2.x: TORCH_FR_BUFFER_SIZE=2000 and TORCH_FR_DUMP_TEMP_FILE, or "
        "torch._C._distributed_c10d._dump_fr_trace_json(True, False).",
    ),
    "HG-181": CausePage(
        "A rank is a Python process that was told a number (RANK, or Open MPI's or Slurm's) on a node of the "
        "inventory. Root sees all of them, other accounts see their own.",
        "fullmesh-hang on a node, as root and as the job's account",
        "The right inventory; an account that may use sudo without a password, or the job's own.",
    ),
    "HG-183": CausePage(
        "A look back of less than no seconds, or no look at all, tells nothing.",
        "./fullmesh hang --help",
        "--stalled 0 or more, --looks 1 or more.",
    ),
    "HG-184": CausePage(
        "Who takes part, and how each node is reached, comes from the inventory; Ansible could not make a plan of it.",
        "ansible-inventory -i INVENTORY --list",
        "What Ansible says of it.",
    ),
    "HG-185": CausePage(
        "`--html FILE` names a place that cannot be written: no such folder, no room, no rights.",
        "ls -ld of that folder; df",
        "Another FILE. The findings come without it as well.",
    ),
}


def format_hang_link(code: str) -> str:
    """Return the path of a code's section on the site."""
    return f"{PATH}#{code.lower()}"


def render_hang_cause(code: str, meaning: str) -> list[str]:
    """One code, as lines of Markdown."""
    page = PAGES[code]
    lines = [
        f"## {code}: {meaning}",
        "",
        page.why,
        "",
        f"**Prove it:** {page.prove}",
        "",
        f"**Fix it:** {page.fix}",
    ]
    return [*lines, "", f"**Source:** {page.source}."] if page.source else lines


def render_hang_causes() -> str:
    """Return docs/causes/hang.md of the site."""
    lines = [
        "# Why a job hangs",
        "",
        "`./fullmesh explain CODE` prints a section. Words in CAPITALS stand for names of yours.",
    ]
    for code, meaning in sorted(CODES.items()):
        lines += ["", f'<a id="{code.lower()}"></a>', "", *render_hang_cause(code, meaning)]
    return "\n".join(lines) + "\n"


def explain_hang_code(code: str, meaning: str) -> str:
    """A section for the terminal."""
    lines = [*render_hang_cause(code, meaning), "", "More: docs/hang.md"]
    return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
