"""Ray does not have the GPUs that the program asks for

vLLM or a trainer asked Ray for GPUs that it does not have ({detail}). A node has not joined, Ray
counts fewer GPUs than the program needs, another job holds them, the program started its own Ray on
this node, or it uses a different address for the node than Ray does.

**Place:** Ray's cluster, not the process that printed this

**Prove:** compare nodes and GPUs in `fullmesh-ray status`, and look for 'Started a local Ray
instance' in the log

**Fix:** Start Ray with --num-gpus on every node and wait until fullmesh-ray status lists all nodes.
Export RAY_ADDRESS and VLLM_HOST_IP as docs/services.md shows. If a node is missing, run ./fullmesh
diagnose -i INVENTORY (DG-175 names the port and the rule)

**Source:** vllm#13909, aibrix#927, gpustack#5509
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-684",
    __doc__,
    examples=(
        (
            "INFO 04-01 02:46:20 ray_utils.py:214] Waiting for creating a placement group of "
            "specs for 30 seconds. specs=[{'node:10.163.194.101': 0.001, 'GPU': 1.0}, {'GPU': "
            "1.0}]. Check `ray status` to see if you have enough resources"
        ),
    ),
    patterns=(
        Pattern(
            "Waiting for creating a placement group of specs",
            r"(?P<detail>Waiting for creating a placement group of specs for \d+ seconds)",
        ),
        Pattern(
            "can fulfill resource request",
            r"(?P<detail>No available node types can fulfill resource request"
            r" \{[^}]{0,120}'(?:GPU|node:)[^}]{0,120}\})",
        ),
        Pattern(
            "Cannot provide a placement group",
            r"(?P<detail>Cannot provide a placement group of .{1,400}? within \d{1,6} seconds)",
        ),
        Pattern(
            "number of required GPUs exceeds",
            r"(?P<detail>number of required GPUs exceeds the total number of available GPUs)",
        ),
        Pattern(
            "is less than total desired GPUs",
            r"(?P<detail>Total available GPUs [\d.]{1,8} is less than total desired GPUs \d{1,6})",
        ),
    ),
    weight=80,
)
