"""Gloo: two ranks take part in a collective with different sizes

A rank received more or fewer bytes than it expected ({detail}): the ranks called different
collectives, or the same one with tensors of different sizes.

**Place:** the ranks that took another path through the program, or have another batch or model

**Prove:** start the job with TORCH_DISTRIBUTED_DEBUG=DETAIL, which checks every collective and
names the rank

**Fix:** Call the same collectives in the same order, with the same shapes and types, on every rank.

**Source:** read: gloo 306281a (July 2025)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-117",
    __doc__,
    examples=(
        (
            "RuntimeError: Received data size doesn't match expected size. Is there a "
            "distributed collective mismatch in your code?"
        ),
    ),
    patterns=(
        Pattern(
            "Received data size doesn't match",
            r"(?P<detail>Received data size doesn't match expected size)",
        ),
        Pattern(
            "op.preamble.length <= op.nbytes",
            r"(?P<detail>op\.preamble\.length <= op\.nbytes[^\n]{0,40})",
        ),
    ),
    weight=84,
)
