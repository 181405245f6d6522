"""Gloo: data stopped in the middle of a collective

All ranks connected, then {operation} got no data for {milliseconds} ms. Large packets are lost on
the path (MTU 9000 on the nodes, 1500 on the path), or a peer is stuck or has fewer batches.

**Place:** the path between the ranks that name each other, or the rank that logs no such timeout

**Prove:** ./fullmesh verify -i INVENTORY (VC-208: MTU black hole), or ping -M do -s 8972 PEER

**Fix:** Set one MTU on all nodes and switches (fullmesh_links: mtu). If a peer is stuck, find its
line: py-spy dump --pid PID. If the ranks have different numbers of samples, give all the same number.

**Source:** measured: 4 KB pass, 4 MB fail with hosts at 9000 and a path of 1500, NVIDIA/nccl#1524,
QwenAudio/CosyVoice#297
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-113",
    __doc__,
    examples=(
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
            "Timed out waiting 6000ms for recv operation to complete"
        ),
    ),
    patterns=(
        Pattern(
            "Timed out waiting",
            r"Timed out waiting (?P<milliseconds>\d+) ?ms for (?P<operation>\w+) operation to complete",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    recorded=(
        RecordedLog(
            "gloo mtu",
            (
                "RuntimeError: [.../unbound_buffer.cc:78] Timed out waiting 6000ms for recv "
                "operation to complete"
            ),
        ),
    ),
)
