"""A rank still prepared data or loaded the model at the timeout

A collective reached its timeout while a rank was still at {task} ({share} %). The others waited for
that rank longer than the timeout allows.

**Place:** the rank that prepares the data or loads the model, and its storage

**Prove:** compare the time of the first collective with that of the progress line above it

**Fix:** Prepare the data once before the job and keep it on fast storage, or let all ranks read the
finished cache. Raise the timeout (init_process_group, ddp_timeout, --dist-timeout) if one rank
needs that long.

**Source:** sgl-project/sglang#3784, read: the progress lines of datasets, Transformers, vLLM and
SGLang
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern, RecordedLog
from fullmesh.causes.nccl.patterns import LATE

EARLY = 5  # collectives of a job that has not begun to train
BAR = r":? {1,3}(?P<share>\d{1,3})%"
WORK = tuple(
    Fact("preparation", Pattern(needle, rf"(?P<task>{words}){BAR}"))
    for needle, words in (
        ("tokenizer on dataset", r"Running tokenizer on dataset(?: \([^)]{1,40}\))?"),
        ("checkpoint shards", r"Loading (?:\w{1,20} )?checkpoint shards"),
        ("Tokenizing", r"Tokenizing(?: \w{1,20}){0,3}"),
        ("Map", r"\bMap(?: \([^)]{1,40}\))?"),
        ("Generating ", r"Generating \w{1,20} split"),
        ("Caching images", r"Caching images(?: \([^)]{1,40}\))?"),
    )
)


def find_slow_preparation(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a timeout of one of the first collectives in a log whose last progress line was not at 100 %."""
    known = evidence.facts
    late = [line for values, line in known.of("late") if int(values[1]) <= EARLY]
    if not late:
        return
    done = {values[0] for values, _ in known.of("preparation") if int(values[1]) >= 100}  # noqa: PLR2004 (percent)
    for (task, share), line in reversed(known.of("preparation")):
        if task not in done:
            yield CAUSE.make_finding({"task": task, "share": share}, [line, late[0]])
            return


CAUSE = LogCause(
    "LG-454",
    __doc__,
    find=find_slow_preparation,
    facts=(*WORK, LATE),
    explains=(Explains(("LG-415", "LG-422")),),
    weight=84,
    recorded=(
        RecordedLog(
            "weights that load slowly",
            (
                "Loading safetensors checkpoint shards:  41% Completed | 67/163 [09:52<14:07,  8.83s/it]\n"
                "[rank9]:[E224 03:11:02.118371882 ProcessGroupNCCL.cpp:616] [Rank 9] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, "
                "NumelOut=1, Timeout(ms)=600000) ran for 600018 milliseconds before timing out."
            ),
            folded=("LG-415",),
        ),
        RecordedLog(
            "weights that were loaded before",
            (
                "Loading safetensors checkpoint shards:  41% Completed | 67/163 [00:02<00:04,  8.83s/it]\n"
                "Loading safetensors checkpoint shards: 100% Completed | 163/163 [00:06<00:00,  8.83s/it]\n"
                "[rank9]:[E224 03:11:02.118371882 ProcessGroupNCCL.cpp:616] [Rank 9] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, "
                "NumelOut=1, Timeout(ms)=600000) ran for 600018 milliseconds before timing out."
            ),
            heads=("LG-415",),
        ),
    ),
)
