"""What torchrun, torch.distributed's start and Lightning say.

A table, one entry a cause, so longer than other files.
"""

from __future__ import annotations

from fullmesh.explain.derive import derive_barrier_count, derive_rank_host
from fullmesh.explain.model import ANY_CAUSE, LogCause, Pattern, Severity

# torchrun's block: host, rank, exitcode, error_file, traceback; more would reach into the block above
RANK = r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\).{0,400}?"
HOST = r"(?:host\s*: (?P<host>\S{1,120}).{0,200}?)?"
FAILED = (
    "  host      : node2\n  rank      : 1 (local_rank: 0)\n  exitcode  : {} (pid:"
    " 14750)\n  error_file: <N/A>\n  traceback : {}"
)
WHERE = "{who}"
BROKEN = ("LG-112", "LG-215", "LG-304", "LG-308", "LG-310", "LG-415", "LG-421")
STORE = ("LG-202", "LG-203", "LG-204", "LG-205", "LG-206", "LG-213", "LG-214")


# how srun, a shell, Open MPI and Python write a signal
WORDS = {
    "SIGKILL": "Killed",
    "SIGBUS": "Bus error",
    "SIGSEGV": "Segmentation fault",
    "SIGABRT": "Aborted",
}


def build_signal_patterns(number: int, name: str) -> tuple[Pattern, ...]:
    """A process that a signal ended, in the words of its launcher, its shell, or the library that caught the signal."""
    words = WORDS[name]
    return (
        Pattern(" (SIG", rf"{HOST}{RANK}Signal {number} \({name}\)", before=4),
        Pattern(
            "failed (exitcode: -",
            rf"failed \(exitcode: -{number}\) (?P<rank>)(?P<host>)local_rank",
        ),
        Pattern(
            "terminated with signal SIG",
            rf"process (?P<rank>\d{{1,7}}) terminated with signal {name}(?P<host>)",
        ),
        Pattern(
            "terminated with code -",
            rf"\[rank: (?P<rank>\d{{1,7}})\] Child process with PID \d+ terminated with code"
            rf" -{number}(?P<host>)\b",
        ),
        Pattern(
            "srun: error: ",
            rf"srun: error: (?P<host>\S{{1,120}}): tasks? (?P<rank>[\d,-]{{1,80}}): {words}",
        ),
        Pattern(
            "exited on signal ",
            rf"process rank (?P<rank>\d{{1,7}}) with PID \d+ on node (?P<host>\S{{1,120}}) exited on signal"
            rf" {number} ",
        ),
        Pattern(
            "exits with return code = ",
            rf"exits with return code = -{number}\b(?P<rank>)(?P<host>)",
        ),
    )


def build_crash_patterns(number: int, name: str) -> tuple[Pattern, ...]:
    """A crash as the process itself reports it: Python's faulthandler, UCX, Open MPI, absl and Ray, a shell."""
    words = WORDS[name]
    nobody = "(?P<rank>)(?P<host>)"
    return (
        Pattern("Fatal Python error: ", f"Fatal Python error: {words}{nobody}"),
        Pattern("Caught signal ", rf"Caught signal {number} \({words}{nobody}"),
        Pattern(
            "] Signal: ",
            rf"\[(?P<host>[\w.-]{{1,120}}):\d+\] Signal: {words} \({number}\)(?P<rank>)",
        ),
        Pattern("*** SIG", rf"\*\*\* {name} received{nobody}"),
        *build_shell_patterns(words),
    )


def build_shell_patterns(words: str) -> tuple[Pattern, ...]:
    """A signal as a shell reports it: of a script's command, or of the one in the foreground."""
    return (
        Pattern(
            words,
            rf"(?:\bline \d+: +\d+ {words}\b|^\s*{words}(?: +\(core dumped\))?\s*$)(?P<rank>)(?P<host>)",
        ),
    )


TORCHRUN = (("launcher", "torchrun"),)

CAUSES = (
    LogCause(
        code="LG-301",
        title="torchrun: the rendezvous endpoint cannot be reached",
        says=(
            "torchrun could not reach the rendezvous store at --rdzv-endpoint. Either its port is blocked, or no"
            " torchrun hosts the store there: the one on that node hosts it only if it recognizes the endpoint as its"
            " own address, which fails on hosts with several addresses."
        ),
        where="the node in --rdzv-endpoint",
        prove="./fullmesh verify -i INVENTORY (VC-301); on the rendezvous node: ss -ltn 'sport = :29400'",
        fix=(
            "./fullmesh apply -i INVENTORY --tags firewall,launch; start the rendezvous node's torchrun, too, with"
            " --rdzv-conf is_host=1 if nothing listens at the endpoint."
        ),
        source="pytorch/pytorch#107021, #121944, #67581, #64926",
        looks=(
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection"
            " to the C10d store has failed. See"
            " inner exception for details.",
        ),
        patterns=(
            Pattern("The connection to the C10d store has failed"),
            Pattern("connect() timed out. Original timeout was"),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-302",
        title="torchrun: not enough nodes joined the rendezvous in time",
        says=(
            "Fewer nodes than --nnodes joined the rendezvous in time: a node did not start"
            " torchrun, or with another --rdzv-id or endpoint."
        ),
        where="the node without a torchrun, or with other options",
        prove="on each node: ps -C torchrun -o args; ./fullmesh verify -i INVENTORY (VC-301, VC-103)",
        fix="Start all nodes with the same --nnodes, --rdzv-id and --rdzv-endpoint (fullmesh's launchers do).",
        source="read: dynamic_rendezvous.py, join timeout 600 s",
        looks=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",),
        patterns=(Pattern("RendezvousTimeoutError", r"RendezvousTimeoutError(?:\b(?!.*import))"),),
        follows=(*STORE, "LG-314"),
        weight=55,
    ),
    LogCause(
        code="LG-303",
        title="torchrun: a node came after the rendezvous was closed",
        says=(
            "This node joined a rendezvous that was already closed: the job had ended or failed"
            " on another node, or the --rdzv-id is an old one."
        ),
        where="the node that ended first; not the node of this log",
        prove="compare the first error's time in all nodes' logs",
        fix="Start again on all nodes with a new --rdzv-id.",
        source="pytorch/pytorch#116974",
        looks=("torch.distributed.elastic.rendezvous.api.RendezvousClosedError",),
        patterns=(Pattern("RendezvousClosedError"),),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-304",
        title="a launcher saw a rank end with an error",
        says="{launcher} saw {who} end first, with exit code {exitcode}.",
        where=WHERE,
        prove="read that rank's own log (torchrun: --log-dir DIR --tee 3, and @record on main; srun: --output=%t.log)",
        fix="Fix the error in that rank's own log.",
        source="read: torch/distributed/elastic/multiprocessing/errors",
        looks=(
            FAILED.format(
                1, "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            ),
        ),
        patterns=(
            Pattern(
                "  exitcode  : ",
                rf"{HOST}{RANK}exitcode\s*: (?P<exitcode>\d+) ",
                before=2,
                fields=TORCHRUN,
            ),
            Pattern(
                "failed (exitcode: ",
                r"failed \(exitcode: (?P<exitcode>\d+)\) (?P<rank>)(?P<host>)local_rank",
                fields=TORCHRUN,
            ),
            Pattern(
                "terminated with code ",
                r"\[rank: (?P<rank>\d{1,7})\] Child process with PID \d+ terminated with code"
                r" (?P<exitcode>\d+)(?P<host>)",
                fields=(("launcher", "Lightning's launcher"),),
            ),
            Pattern(
                "srun: error: ",
                r"srun: error: (?P<host>\S{1,120}): tasks? (?P<rank>[\d,-]{1,80}): Exited with exit code"
                r" (?P<exitcode>\d+)",
                fields=(("launcher", "srun"),),
            ),
            Pattern(
                "exits with return code = ",
                r"exits with return code = (?P<exitcode>[1-9]\d*)(?P<rank>)(?P<host>)",
                fields=(("launcher", "DeepSpeed's launcher"),),
            ),
            Pattern(
                "Exit code: ",
                r"Process name: \[\[\d+,\d+\],(?P<rank>\d{1,7})\]\s+Exit code: +(?P<exitcode>[1-9]\d*)(?P<host>)",
                before=1,
                fields=(("launcher", "mpirun"),),
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        derive=derive_rank_host,
    ),
    LogCause(
        code="LG-305",
        title="a rank was killed (SIGKILL), most often by the kernel for want of memory",
        says=(
            "{Who} was killed with SIGKILL; nearly always that is the kernel's"
            " or cgroup's out-of-memory killer."
        ),
        where=WHERE,
        prove="on that node: journalctl -k --since -1d | grep -i -E 'oom|killed process'; systemd-cgtop; free -h",
        fix="Fewer DataLoader workers or a smaller batch, more memory for the unit or container.",
        source="OpenBMB/MiniCPM-V#770, hpcaitech/ColossalAI#3514",
        looks=(FAILED.format(-9, "Signal 9 (SIGKILL) received by PID 14750"),),
        patterns=(*build_signal_patterns(9, "SIGKILL"), *build_shell_patterns("Killed")),
        derive=derive_rank_host,
        follows=("LG-106", "LG-501"),  # somebody kills a job that waits in vain
        weight=84,
    ),
    LogCause(
        code="LG-306",
        title="a rank died of SIGBUS: shared memory (/dev/shm) is full",
        says=(
            "{Who} died of SIGBUS: /dev/shm is too small (containers have 64 MB)"
            " for DataLoader workers or NCCL."
        ),
        where=WHERE,
        prove="in the job's container: df -h /dev/shm",
        fix=(
            "Start the container with --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with"
            " medium Memory at /dev/shm."
        ),
        source="NVIDIA/nccl#290, #525; the DataLoader's own message names shared memory",
        looks=(
            FAILED.format(-7, "Signal 7 (SIGBUS) received by PID 14750"),
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is"
            " possible that dataloader's workers are"
            " out of shared memory.",
        ),
        patterns=(
            *build_signal_patterns(7, "SIGBUS"),
            *build_crash_patterns(7, "SIGBUS"),
            Pattern(
                "killed by signal: Bus error", r"(?P<rank>)(?P<host>)killed by signal: Bus error"
            ),
        ),
        derive=derive_rank_host,
        weight=84,
    ),
    LogCause(
        code="LG-307",
        title="a rank crashed in native code (SIGSEGV)",
        says=(
            "{Who} crashed in native code (SIGSEGV): mixed builds of torch,"
            " CUDA, NCCL or an extension."
        ),
        where=WHERE,
        prove="python -X faulthandler; coredumpctl info; ./fullmesh verify -i INVENTORY (VC-104: versions differ)",
        fix="One lock file for all nodes (role torch_runtime); rebuild extensions against the torch that runs.",
        source="read: the formats of torchrun, srun, Open MPI, UCX, faulthandler and the kernel; NVIDIA/nccl#795",
        looks=(
            FAILED.format(-11, "Signal 11 (SIGSEGV) received by PID 14750"),
            "srun: error: gpu12: task 3: Segmentation fault (core dumped)",
            "Fatal Python error: Segmentation fault",
            "[gpu12:90211] Signal: Segmentation fault (11)",
            "[gpu12:90211:0:90211] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x18)",
        ),
        patterns=(
            *build_signal_patterns(11, "SIGSEGV"),
            *build_crash_patterns(11, "SIGSEGV"),
            Pattern("segfault at ", r"\w\[\d+\]: segfault at [0-9a-f]+ ip (?P<rank>)(?P<host>)"),
        ),
        derive=derive_rank_host,
        weight=72,
    ),
    LogCause(
        code="LG-308",
        title="a rank aborted itself (SIGABRT)",
        says=(
            "{Who} aborted itself (SIGABRT), mostly its NCCL watchdog or an uncaught C++ exception. The lines"
            " before it say why, if the log has them."
        ),
        where=WHERE,
        prove="read the last lines of that rank's own log",
        fix="Fix the error above it.",
        source="read: ProcessGroupNCCL.cpp watchdog",
        looks=(FAILED.format(-6, "Signal 6 (SIGABRT) received by PID 14750"),),
        patterns=(*build_signal_patterns(6, "SIGABRT"), *build_crash_patterns(6, "SIGABRT")),
        derive=derive_rank_host,
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-309",
        title="the job was ended from outside (a signal, a scheduler's limit)",
        says=(
            "{launcher} says that the job was ended from outside ({signal}): a closed terminal (SIGHUP,"
            " signal 1), a scheduler's limit or scancel, or a user's kill."
        ),
        where="the node of this log",
        prove="journalctl --since -1d | grep -i -E 'slurm|systemd.*stopp'; sacct -j JOB -o State,Timelimit",
        fix="Start it under systemd (role launchers), tmux or the scheduler; raise the time limit.",
        source="read: torch/distributed/elastic/multiprocessing/api.py SignalException",
        looks=(
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 1",
        ),
        patterns=(
            Pattern(
                "SignalException: Process",
                r"SignalException: Process \d+ got (?P<signal>signal: \d+)",
                fields=TORCHRUN,
            ),
            Pattern(
                " DUE TO ",
                r"CANCELLED AT \S{1,40} (?P<signal>DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION))",
                fields=(("launcher", "Slurm"),),
            ),
        ),
        weight=89,
    ),
    LogCause(
        code="LG-310",
        title="torchrun: the agent stops its other ranks",
        says="torchrun ended its other ranks because one had failed (or it was told to stop).",
        where="another rank than the ones that are stopped",
        prove="give explain-log the logs of all ranks",
        fix="Nothing here; fix the rank that failed first.",
        source="read: torch/distributed/elastic/multiprocessing/api.py",
        looks=(
            "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2410413 closing signal SIGTERM",
        ),
        patterns=(Pattern("closing signal SIG", r"Sending process \d+ closing signal SIG\w+"),),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-304", "LG-308"),
    ),
    LogCause(
        code="LG-311",
        title="an environment variable of the launcher is missing",
        says="{variable} is not set: the script was started without torchrun, or without the cluster's environment.",
        where="the node of this log",
        prove="env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_)'",
        fix="Start it with the launcher of role launchers, or source /etc/fullmesh's environment file first.",
        source="read: torch/distributed/rendezvous.py _env_error",
        looks=(
            (
                "ValueError: Error initializing torch.distributed using env:// rendezvous:"
                " environment variable RANK expected, but not set"
            ),
        ),
        patterns=(
            Pattern(
                "expected, but not set",
                r"environment variable (?P<variable>\w{1,64}) expected, but not set",
            ),
            # a traceback that was cut before its last line
            Pattern("raise _env_error(", r"raise _env_error\(\"(?P<variable>\w{1,64})\"\)"),
        ),
        key=("variable",),
        weight=91,
    ),
    LogCause(
        code="LG-312",
        title="more local ranks than GPUs",
        says=(
            "A rank asked for a GPU that the node does not have ({detail}): --nproc-per-node is"
            " larger than the GPUs that it may see."
        ),
        where="the node of this log",
        prove="on that node: nvidia-smi -L | wc -l; echo $CUDA_VISIBLE_DEVICES",
        fix="Set fullmesh_local_ranks (--nproc-per-node) to the number of visible GPUs.",
        source="read: CUDA runtime; Lightning's accelerator check",
        looks=(
            "RuntimeError: CUDA error: invalid device ordinal",
            (
                "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu:"
                " [0, 1]\n But your machine only has: [0]"
            ),
        ),
        patterns=(
            Pattern("invalid device ordinal", r"(?P<detail>invalid device ordinal)"),
            Pattern("your machine only has", r"(?P<detail>your machine only has: \[[^\]]{0,60}\])"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-314",
        title="torchrun: a node lost its heartbeat; clocks differ by 15 s or more, or its agent ended",
        says=(
            "The rendezvous dropped {nodes} for want of a heartbeat: it compares wall clocks (15"
            " s), so a clock that is off drops"
            " a healthy node and the rest may train alone and exit 0."
        ),
        where="the node named there, or the clock of the node of this log",
        prove="on all nodes at once: date +%s.%N; chronyc tracking; ./fullmesh verify -i INVENTORY (VC-103)",
        fix="./fullmesh apply -i INVENTORY --tags tuning (role time_sync).",
        source=(
            "measured: -20 s and -60 s lost a node silently (the line needs LOGLEVEL=DEBUG);"
            " dynamic_rendezvous.py"
        ),
        looks=(
            "As part of the sync operation the node(s) 'node2_4711_0' have been removed from the"
            " rendezvous 'job1' since they had no"
            " heartbeat.",
        ),
        patterns=(
            Pattern(
                "had no heartbeat",
                r"the node\(s\) (?P<nodes>.{1,200}?) have been removed from the rendezvous",
            ),
        ),
        weight=86,
    ),
    LogCause(
        code="LG-315",
        title="every node trains alone",
        says=(
            "{count} logs each say that theirs is the whole job (world size 1): the nodes never"
            " met and each trains alone."
        ),
        where="the launcher of every node: WORLD_SIZE, num_nodes or --nnodes",
        prove="on all nodes: env | grep -E '^(WORLD_SIZE|NODE_RANK|MASTER_)'; date +%s.%N (clocks, see LG-314)",
        fix="Set num_nodes in the Trainer and start every node with the cluster's environment (role launchers).",
        source="measured with clocks 20 s apart: exit 0, trained alone; read: Lightning's start line",
        looks=(),
        patterns=(),
        weight=82,
    ),
    LogCause(
        code="LG-316",
        title="store: the start barrier counted the wrong number of ranks",
        says="At the start barrier {what}.",
        where="the missing ranks, or the old processes that still use the store",
        prove="on each node: pgrep -af torch; env | grep -E '^(RANK|WORLD_SIZE|MASTER_PORT)'",
        fix="End left-over processes, use a fresh port or --rdzv-id, start each rank exactly once.",
        source="read: torch/distributed/distributed_c10d.py _store_based_barrier",
        looks=(
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key:"
            " store_based_barrier_key:1 (world_size=4, worker_count=6, timeout=0:30:00)",
        ),
        patterns=(
            Pattern(
                "in store based barrier",
                (
                    r"in store based barrier on rank: \d+.{0,120}?world_size=(?P<wanted>\d{1,9}),"
                    r" (?:worker_count|num_workers_joined)=(?P<came>\d{1,9})"
                ),
            ),
            # while fewer than all are there it only waits; more than all never become all
            Pattern(
                "Waiting in store based barrier",
                r"Waiting in store based barrier to initialize process group for rank: \d+"
                r".{0,80}?world_size=(?P<wanted>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<came>\d{1,9})"
                r"(?P<waits>)",
            ),
        ),
        key=("what",),
        derive=derive_barrier_count,
        follows=("LG-201", "LG-311", "LG-401", *STORE),
        weight=62,
    ),
    LogCause(
        code="LG-317",
        title="a proxy stands between the job and a peer or service",
        says="An HTTP connection went to a proxy: the proxy variables are set and NO_PROXY does not name the peers.",
        where="the node of this log",
        prove="env | grep -i proxy",
        fix="Put every peer's name and address into NO_PROXY (Gloo, NCCL and TCPStore never use a proxy).",
        source="measured (Gloo and TCPStore unaffected); vllm-project/vllm#5779, modelscope/ms-swift#5545",
        looks=(
            "requests.exceptions.ProxyError: HTTPConnectionPool(host='10.77.0.11', port=8000): Max retries exceeded",
        ),
        patterns=(Pattern("ProxyError: "), Pattern("Tunnel connection failed: ")),
        needs=(*BROKEN, "LG-201", "LG-319"),
        weight=45,
    ),
    LogCause(
        code="LG-318",
        title="a monitored barrier names ranks that did not come",
        says="Rank {rank} did not reach monitoredBarrier: it ended, hangs, or took another way through the code.",
        where="rank {rank}",
        prove="read that rank's log; py-spy dump --pid PID on it while it hangs",
        fix="Every rank must call the same collectives in the same order.",
        source="read: ProcessGroupGloo.cpp monitoredBarrier",
        looks=("RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms",),
        patterns=(
            Pattern(
                "failed to pass monitoredBarrier",
                r"Ranks? (?P<rank>[\d, ]{1,80}) failed to pass monitoredBarrier",
            ),
        ),
        key=("rank",),
        follows=("LG-305", "LG-306", "LG-307", "LG-319", "LG-501", "LG-509"),
        weight=64,
    ),
    LogCause(
        code="LG-319",
        title="the job's own code raised an error",
        says="The job's own code failed with {error}: {message}.",
        where="the rank of this log",
        prove="read the traceback above that line",
        fix="Fix the program or its environment on that node; ranks that only waited for it failed later.",
        source="Python's tracebacks",
        looks=("[rank1]: ModuleNotFoundError: No module named 'transformers'",),
        patterns=tuple(
            Pattern(
                f"{name}: ",
                r"^(?:\S{0,60}\s){0,4}?\s*(?P<error>(?:[A-Za-z_]\w*\.)*"
                + name
                # what torch, Accelerate and SGLang raise about their own start has causes of its own
                + r"): (?!Error initializing torch\.distributed|trying to initialize the default process group twice"
                + r"|Unknown c10d backend type|.{0,300}undefined symbol: nccl"
                + r"|You need to (?:use at least 2 processes|manually pass in `--num_processes`)"
                + r"|please provide --dist-init-addr)"
                r"(?P<message>.{1,200})",
            )
            for name in (
                "ValueError",
                "ZeroDivisionError",
                "FloatingPointError",
                "UnicodeDecodeError",
                "MemoryError",
                "NotImplementedError",
                "ModuleNotFoundError",
                "ImportError",
                "FileNotFoundError",
                "PermissionError",
                "NameError",
                "AttributeError",
                "TypeError",
                "KeyError",
                "IndexError",
                "AssertionError",
                "SyntaxError",
            )
        ),
        key=("error",),
        needs=BROKEN,
        weight=68,
    ),
    LogCause(
        code="LG-320",
        title="a rank aborted while its program ended",
        says=(
            "A thread of the process was still at work when the program ended, mostly Gloo's giving a tensor back:"
            " the rank aborted, though what it computed may be whole."
        ),
        where="the node of this log; torchrun on the other nodes waits up to 300 s for it, deaf to SIGTERM",
        prove="look whether the job's last output is there; grep pt_gloo /proc/PID/task/*/comm before the end",
        fix=(
            "Let a rank that is done leave with os._exit(0) after destroy_process_group() and what atexit holds, as"
            " examples/ddp.py does; what keeps the model keeps Gloo's threads."
        ),
        source=(
            "pytorch/pytorch#190489; measured: torch 2.13, 8 ranks on two processors that end right after a"
            " collective, 5 of 8 jobs, 0 of 8 with os._exit"
        ),
        looks=("terminate called without an active exception",),
        patterns=(Pattern("terminate called without an active exception"),),
        # an error ends the program early, too, with the model and its threads still there
        follows=("LG-319",),
        weight=56,
    ),
    LogCause(
        code="LG-321",
        title="the process group was initialized twice",
        says=(
            "init_process_group was called a second time in one process: the framework (Lightning's Trainer,"
            " Accelerate, DeepSpeed, an imported module) had done it before, or the script runs it in a loop or a"
            " retry."
        ),
        where="the job's own code; every rank that runs it, the network has no part in it",
        prove="the traceback above it names the second call; grep -rn init_process_group in the job's code",
        fix=(
            "Keep one call: 'if not torch.distributed.is_initialized(): init_process_group(...)', none at all under a"
            " framework that makes the group itself; destroy_process_group() before a new try."
        ),
        source="read: torch/distributed/distributed_c10d.py; intel/torch-xpu-ops#1525, modelscope/modelscope#98",
        looks=(
            "[rank0]: ValueError: trying to initialize the default process group twice!",
            "RuntimeError: trying to initialize the default process group twice!",
        ),
        patterns=(
            Pattern(
                "trying to initialize the default process group",
                # not the line of torch's source that a traceback shows
                r'(?<!raise ValueError\(")(?<!raise RuntimeError\(")'
                r"trying to initialize the default process group twice",
            ),
        ),
        weight=91,
    ),
    LogCause(
        code="LG-322",
        title="torch has no such backend",
        says=(
            "init_process_group was asked for a backend that this torch has not: its wheels have Gloo, and NCCL (which"
            " is RCCL in those for ROCm). HCCL comes with torch_npu or Intel's torch, UCC and MPI with a torch that was"
            " built for them. Nothing takes NCCL in its place."
        ),
        where="the torch of the node of this log, and the job's own code; the network has no part in it",
        prove="python -c 'import torch.distributed as d; print(d.is_gloo_available(), d.is_nccl_available(), "
        "d.is_ucc_available(), d.is_mpi_available())'",
        fix=(
            "init_process_group('gloo') on processors, 'nccl' on NVIDIA's and AMD's GPUs; for another one that"
            " vendor's torch, from a lock of your own (torch_runtime_requirements), and its import before the call."
        ),
        source="read: torch/distributed/distributed_c10d.py, torch 2.13",
        looks=(
            "RuntimeError: Distributed package doesn't have NCCL built in",
            "AssertionError: Unknown c10d backend type HCCL",
        ),
        patterns=(
            Pattern(
                "built in",
                r"(?<!Error\(\")Distributed package doesn't have (?P<detail>\w+) built in",
            ),
            Pattern("Unknown c10d backend type", r"Unknown c10d backend type (?P<detail>\w+)"),
        ),
        weight=91,
    ),
    LogCause(
        code="LG-323",
        title="the launcher passes --local-rank to a script that does not know it",
        says=(
            "torch.distributed.launch started the script with {detail}, which its argument parser does not know: torch"
            " before 2.0 writes --local_rank, since 2.0 --local-rank."
        ),
        where="the job's own script, on every node alike; the network has no part in it",
        prove="grep -n local_rank the script; python -c 'import torch; print(torch.__version__)'",
        fix=(
            "Start it with torchrun (or a launcher of role launchers), which passes no such argument, and read"
            " int(os.environ['LOCAL_RANK']); or let the parser know both spellings."
        ),
        source="read: torch/distributed/launch.py 2.0; XPixelGroup/BasicSR#626, skycrapers/TecoGAN-PyTorch#31",
        looks=("train.py: error: unrecognized arguments: --local-rank=0",),
        patterns=(
            Pattern(
                "unrecognized arguments: ",
                r"unrecognized arguments: .{0,120}?(?P<detail>\S{0,2}local[-_]rank)",
            ),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-324",
        title="DDP: some parameters got no gradient",
        says=(
            "DistributedDataParallel waited for gradients of parameters that took no part in the loss of this rank:"
            " the model uses another part of itself than in the round before, or never uses one."
        ),
        where="the model of the job; the network has no part in it",
        prove="TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters that got no gradient, on each rank",
        fix=(
            "Take the unused modules out, let every output of forward reach the loss on every rank, or pass"
            " find_unused_parameters=True to DistributedDataParallel."
        ),
        source="read: torch/csrc/distributed/c10d/reducer.cpp; HamPerdredes/SOOD#33, ImprintLab/MedSegDiff#27",
        looks=(
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This"
            " error indicates that your module has parameters that were not used in producing loss.",
        ),
        patterns=(Pattern("Expected to have finished reduction in the prior iteration"),),
        weight=92,
    ),
    LogCause(
        code="LG-325",
        title="a collective got a tensor on a device that the process group has no backend for",
        says=(
            "A collective was called with a tensor on {device}, and no backend of the process group serves that device:"
            " NCCL serves GPU tensors only, Gloo serves CPU tensors."
        ),
        where="the job's own code; the network has no part in it",
        prove="the traceback above it names the call",
        fix="Move the tensor (tensor.cuda()), or init_process_group('cpu:gloo,cuda:nccl').",
        source="mistralai/mistral-inference#252; read: torch ProcessGroup.hpp getBackend",
        looks=("[rank0]: RuntimeError: No backend type associated with device type cpu",),
        patterns=(
            Pattern(
                "No backend type associated with device type",
                r"No backend type associated with device type (?P<device>\w{1,20})",
            ),
        ),
        weight=91,
    ),
    LogCause(
        code="LG-326",
        title="two nodes count their ranks from the same number",
        says=(
            "{files} each have ranks {ranks} of {size}, and no log has the others: the nodes do not know that there are"
            " several, so each gives its processes the same ranks, and the job waits for the missing ones."
        ),
        where="the launcher of every node: node rank, num_nodes, srun --ntasks-per-node",
        prove="on all nodes: env | grep -E '^(SLURM_NODEID|SLURM_PROCID|NODE_RANK|GROUP_RANK|LOCAL_RANK)'",
        fix=(
            "Give each node its own node rank (NODE_RANK), or start one task per GPU: srun --ntasks-per-node=GPUS."
            " fullmesh's launchers set both."
        ),
        source="Lightning-AI/pytorch-lightning#4389",
        looks=(),
        patterns=(),
        weight=85,
    ),
    LogCause(
        code="LG-327",
        title="a service mesh takes the job's connections",
        says=(
            "A log of the proxy envoy names port {port}, at which ranks meet: a service mesh (Istio) takes the"
            " connections between the pods. The store's port may pass, but not Gloo's and NCCL's random ports."
        ),
        where="the pods of the job: their sidecar",
        prove="kubectl get pod POD -o jsonpath='{{.spec.containers[*].name}}' (istio-proxy?)",
        fix="Start the job's pods without a sidecar: annotation sidecar.istio.io/inject: 'false'.",
        source="pytorch/pytorch#81704, kubeflow/trainer#1636",
        looks=(),
        patterns=(),
        weight=64,
    ),
    LogCause(
        code="LG-910",
        title="harmless: the process group was not destroyed at exit",
        says=(
            "The program ended without dist.destroy_process_group(); with NCCL that costs nothing at the end of a"
            " good run."
        ),
        prove="look whether the run's result is there",
        fix="Call torch.distributed.destroy_process_group() at the end.",
        source="read: ProcessGroupNCCL.cpp destructor",
        looks=(
            "[rank0]:[W830 18:43:46.210410361 ProcessGroupNCCL.cpp:1250] Warning: WARNING:"
            " process group has NOT been destroyed before"
            " we destruct ProcessGroupNCCL.",
        ),
        patterns=(
            Pattern("process group has NOT been destroyed"),
            Pattern("destroy_process_group() was not called"),
        ),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-911",
        title="harmless: barrier does not know the rank's GPU",
        says="barrier() guessed the rank's GPU; it matters only if a rank does not use the GPU of its local rank.",
        prove="torch.cuda.current_device() on each rank",
        fix="Pass device_id to init_process_group or call torch.cuda.set_device(local_rank) first.",
        source="read: ProcessGroupNCCL.cpp barrier",
        looks=(
            "[rank0]:[W1 ProcessGroupNCCL.cpp:4715] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 as"
            " device used by this process is currently"
            " unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.",
        ),
        patterns=(
            Pattern("by this process is currently unknown"),
            Pattern("by this process are currently unknown"),
        ),
        severity=Severity.HARMLESS,
    ),
)
