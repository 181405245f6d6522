"""DeepEP waited for other ranks until its timeout

A rank of DeepEP waited for data of the others until its timeout ({detail}). A rank ended or is
slower, or NVSHMEM's network does not work.

**Place:** a rank without this line

**Prove:** pass the logs of all ranks to explain-log and find the rank whose log ends first

**Fix:** Fix the rank that is missing. If all ranks wait, test the RDMA network of NVSHMEM between
the nodes.

**Source:** read: DeepEP's kernels
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-740",
    __doc__,
    examples=("RuntimeError: DeepEP error: CPU recv timeout",),
    patterns=(
        Pattern(
            "DeepEP ",
            r"DeepEP (?P<detail>(?:error: )?(?:CPU recv timeout|timeout (?:for |\()\w{1,20}))",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=60,
)
