"""vLLM: the head's interface names replace those of another node

vLLM copied {variable} from its head to a worker that had another value ({own} became {head}). If
the interfaces have different names there, the worker finds no interface or the wrong one.

**Place:** the node whose own value was replaced

**Prove:** on every node, run `ip -brief link`, `ls /sys/class/infiniband` and `env | grep -E
'IFNAME|HCA|NET_DEVICES'`

**Fix:** Give the interfaces the same names, or list all of them on both nodes. Or set the variable
on each node but not on the head. vLLM does not copy the variables that
ray_non_carry_over_env_vars.json in its configuration folder names.

**Source:** spark-arena/sparkrun#135, read: vllm/utils update_environment_variables
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern
from fullmesh.causes.nccl.patterns import BAD_NETWORK

CAUSE = LogCause(
    "LG-692",
    __doc__,
    examples=(
        (
            "(EngineCore_DP0 pid=312) Overwriting environment variable NCCL_SOCKET_IFNAME from "
            "'enp1s0f0np0' to 'enp1s0f1np1'"
        ),
    ),
    patterns=(
        Pattern(
            "Overwriting environment variable ",
            r"Overwriting environment variable (?P<variable>\w{1,30}_(?:IFNAME|HCA|NET_DEVICES)) from"
            r" '(?P<own>[^']{1,120})' to '(?P<head>[^']{1,120})'",
        ),
    ),
    only_with=(*BAD_NETWORK, "LG-102", "LG-103", "LG-104", "LG-108", "LG-406", "LG-412"),
    weight=80,
)
