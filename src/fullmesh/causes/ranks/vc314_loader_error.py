"""The dynamic loader lacks a library of a job

A library that LD_PRELOAD or `/etc/ld.so.preload` names cannot be loaded: each process prints an error and runs without
it (warning). A library that torch needs is missing or is too old: torch cannot be imported.

**Prove:** su -l ACCOUNT -c 'ldd VENV/lib/python3*/site-packages/torch/lib/libtorch_python.so | grep "not found"'

**Fix:** Correct the file that the message names, or install the library.

**Source:** ld.so(8)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-314",
    __doc__,
    weight=280,
    explains=(Explains(("VC-302", "VC-311"), has_same_node),),
    cases=(
        CauseCase(
            "job-preload", "LD_PRELOAD=/opt/nosuch/libhook.so in /etc/environment", severity=WARNING
        ),
    ),
)
