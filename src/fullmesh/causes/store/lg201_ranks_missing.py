"""Store: some ranks did not reach rank 0

Rank 0 waited {seconds} s, and some ranks did not reach its store (connected: {came}). The master
port is blocked, MASTER_ADDR or MASTER_PORT differs on a node, WORLD_SIZE is too large, or a rank
ended earlier.

**Place:** the ranks that are missing, or the firewall of rank 0's node, not the rank that printed
this

**Prove:** run ./fullmesh verify -i INVENTORY (VC-301 in check L3), `env | grep -E
'^(MASTER_|RANK|WORLD_SIZE)'` on each node, and `ss -ltn` on rank 0's node

**Fix:** ./fullmesh apply -i INVENTORY --tags firewall,launch (opens the master port to the peers
and gives all nodes one environment).

**Source:** measured, OpenRLHF/OpenRLHF#1040, timeout 1800 s + 1 s = 1801
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog


def derive_joined_ranks(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Add how many ranks connected, or "?" if the line was cut off before its numbers."""
    if not fields["all"]:
        return {**fields, "came": "?"}
    came = f"{fields['some']} of {fields['all']}"
    return {**fields, "came": came} if int(fields["some"]) < int(fields["all"]) else None


CAUSE = LogCause(
    "LG-201",
    __doc__,
    examples=(
        (
            "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
            "1/2 clients joined."
        ),
    ),
    patterns=(
        Pattern(
            "seconds waiting for clients",
            # logs and error boxes cut the numbers off, and other programs continue with a word ("clients to leave")
            (
                r"Timed out after (?P<seconds>\d{1,9}) seconds waiting for clients"
                r"(?:\. (?P<some>\d{1,9})/(?P<all>\d{1,9}) clients joined|(?![\w-]|[,;]? +[a-z]))"
            ),
        ),
    ),
    explains=(Explains(("LG-210", "LG-316")),),
    derive=derive_joined_ranks,
    recorded=(
        RecordedLog(
            "seed 2: clients",
            (
                "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for "
                "clients. 1/2 clients joined."
            ),
        ),
        RecordedLog(
            "clients, cut off",
            "[rank0]: RuntimeError: Timed out after 1801 seconds waiting for clients",
        ),
        RecordedLog(
            "clients, cut off after the full stop",
            (
                "2026-11-20 08:52:46,164 torch.distributed.DistStoreError: Timed out after "
                "1801 seconds waiting for clients."
            ),
        ),
    ),
)
