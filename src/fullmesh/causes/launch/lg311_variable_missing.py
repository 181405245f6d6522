"""An environment variable of the launcher is missing

{variable} is not set. Either the script was started without torchrun or without the cluster's
environment, or a name did not resolve, or Kubernetes did not replace a variable in the command.

**Place:** the node of this log

**Prove:** env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_)'

**Fix:** Start it with the launcher of role launchers, or source /etc/fullmesh's environment file
first. In a script, stop if an address is empty. In a pod, use $(NAME) for variables of `env`, and
$NAME in a shell. For oneCCL, start it with mpirun, or set CCL_PROCESS_LAUNCHER=none, CCL_LOCAL_RANK
and CCL_LOCAL_SIZE.

**Source:** aws-samples/aws-do-eks#62, volcano-sh/kthena#487, huggingface/accelerate#2340, read:
torch/distributed/rendezvous.py _env_error
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog


def describe_variable(fields: Fields, _options: ExplainOptions) -> Fields:
    """Name the part of an address that is empty."""
    value = fields["variable"]
    return {"variable": f"The host in {value}" if value.startswith("tcp:") else value}


CAUSE = LogCause(
    "LG-311",
    __doc__,
    examples=(
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set"
        ),
    ),
    patterns=(
        Pattern(
            "expected, but not set",
            r"environment variable (?P<variable>\w{1,64}) expected, but not set",
        ),
        Pattern(
            "in the torch environment",
            r"Could not find '(?P<variable>\w{1,64})' in the torch environment",
        ),
        *(
            Pattern(f"Error: '{name}", rf"KeyError: '(?P<variable>{name}\w{{0,20}})'\s*$")
            for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "SLURM_")
        ),
        # a traceback that was cut before its last line
        Pattern("raise _env_error(", r"raise _env_error\(\"(?P<variable>\w{1,64})\"\)"),
        # oneCCL without MPI's launcher
        Pattern(
            "getenv_local_coord: condition",
            r"CCL_ERROR\|.{0,40}getenv_local_coord: condition",
            fields=(("variable", "oneCCL's local rank (CCL_LOCAL_RANK and CCL_LOCAL_SIZE)"),),
        ),
        Pattern("tcp://:", r"rror: .{0,200}(?P<variable>tcp://:\d{1,5})(?!\d)"),
        # $(NAME) that Kubernetes did not replace is a command for the shell
        *(
            Pattern(
                f": {words}not found",
                r"\b(?:ba|da)?sh: (?:line )?(?:\d{1,6}: )?"
                rf"(?P<variable>[A-Z][A-Za-z0-9]{{0,40}}_\w{{1,60}}): {words}not found",
            )
            for words in ("", "command ")
        ),
    ),
    derive=describe_variable,
    explains=(Explains(("LG-201", "LG-316")),),
    key=("variable",),
    weight=91,
    recorded=(
        RecordedLog(
            "an empty address",
            "[dp1/worker] LEADER_IP= MY_IP=10.0.0.49\nValueError: Invalid zmq path: tcp://:29550",
        ),
        RecordedLog(
            "oneCCL without a launcher",
            (
                "2024:01:15-03:36:29:(1980058) |CCL_ERROR| global.cpp:150 getenv_local_coord: condition "
                "global_data::env().ze_ipc_exchange == ccl::ze::ipc_exchange_mode::sockets failed"
            ),
        ),
        RecordedLog(
            "a variable that Kubernetes did not replace",
            "sh: 1: Leader_Node_Address: not found\nError: Missing argument --ray_address",
        ),
        RecordedLog(
            "a traceback cut before the variable's line",
            (
                '  File "/env/lib/python3.8/site-packages/torch/distributed/rendezvous.py", '
                "line 166, in _env_rendezvous_handler\n"
                '    raise _env_error("MASTER_ADDR")'
            ),
        ),
    ),
)
