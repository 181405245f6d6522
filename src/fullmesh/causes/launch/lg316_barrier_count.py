"""Store: the start barrier counted the wrong number of ranks

At the start barrier {what}.

**Place:** the missing ranks, or the old processes that still use the store

**Prove:** on each node: pgrep -af torch && env | grep -E '^(RANK|WORLD_SIZE|MASTER_PORT)'

**Fix:** End leftover processes, use a new port or --rdzv-id, and start each rank exactly once.

**Source:** read: torch/distributed/distributed_c10d.py _store_based_barrier
"""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog


def derive_barrier_count(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Describe the store's barrier count: too few means missing ranks, too many an old store."""
    came, wanted = int(fields["came"]), int(fields["wanted"])
    if came == wanted or (came < wanted and "waits" in fields):
        return None
    few_text = f"{wanted - came} of {wanted} ranks never came to the barrier"
    many_text = (
        f"{came} workers counted for {wanted} ranks: ranks of an earlier try or another job"
        " use the same store"
    )
    return {**fields, "what": few_text if came < wanted else many_text}


CAUSE = LogCause(
    "LG-316",
    __doc__,
    examples=(
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: "
            "0, for key: store_based_barrier_key:1 (world_size=4, worker_count=6, "
            "timeout=0:30:00)"
        ),
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
    weight=62,
    recorded=(
        RecordedLog(
            "too many at the barrier",
            (
                "Waiting in store based barrier to initialize process group for rank: 0, key: "
                "store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)"
            ),
        ),
    ),
)
