"""Gloo: this torch has no transport for this system

This build of torch contains no Gloo device for this system. Builds for Windows need libuv, and some
wheels (2.7 and 2.8 among them) lack it.

**Place:** the Python environment of this log

**Prove:** python -c "import torch.distributed as d, sys; sys.exit(not d.is_gloo_available())"

**Fix:** Install another version of torch on all nodes, or run the job under Linux (WSL).

**Source:** SystemPanic/vllm-windows#19, pytorch/pytorch#150381
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-118",
    __doc__,
    examples=("RuntimeError: makeDeviceForHostname(): unsupported gloo device",),
    patterns=(
        Pattern("unsupported gloo device", r"makeDeviceFor\w{1,20}\(\): unsupported gloo device"),
    ),
    weight=86,
)
