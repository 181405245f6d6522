"""vLLM: its old engine does not do data parallelism

vLLM's old engine (V0, MQLLMEngine) waits for {size} processes but is the only one: it does not start
the other data-parallel ranks.

**Where:** the process of this log

**Prove:** env | grep VLLM_USE_V1; the command line: --data-parallel-size

**Fix:** Unset VLLM_USE_V1=0 (the V1 engine does data parallelism), update vLLM, or leave out
--data-parallel-size.

**Source:** vllm-project/vllm#24036
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)

ALONE = Fact(
    "alone in the store",
    Pattern(
        "clients joined", r"seconds waiting for clients\. 1/(?P<size>[2-9]|\d{2,7}) clients joined"
    ),
)
OLD_ENGINE = Fact("vLLM V0", Pattern("MQLLMEngine.from_", r"MQLLMEngine\.from_\w{1,40}\("))
WORKERS = tuple(
    Fact("vLLM workers", Pattern(needle))
    for needle in ("RayWorkerWrapper", "VllmWorkerProcess", "ray_distributed_executor")
)


def find_old_engine(evidence: LogEvidence) -> Iterator[LogFinding]:
    """The old engine, alone in its store, that started no workers either."""
    known = evidence.facts
    alone, engine = known.of("alone in the store"), known.of("vLLM V0")
    if alone and engine and not known.of("vLLM workers"):
        (size,), line = alone[0]
        yield CAUSE.make_finding({"size": size}, [line, engine[0][1]])


CAUSE = LogCause(
    "LG-694",
    __doc__,
    find=find_old_engine,
    facts=(ALONE, OLD_ENGINE, *WORKERS),
    explains=(Explains(("LG-201",)),),
    weight=84,
    recorded=(
        RecordedLog(
            "eight data-parallel ranks",
            (
                "ERROR 09-01 02:20:44 [engine.py:458] Timed out after 601 seconds waiting for "
                "clients. 1/8 clients joined.\n"
                "ERROR 09-01 02:20:44 [engine.py:458]     engine = MQLLMEngine.from_vllm_config("
            ),
            folded=("LG-201",),
        ),
        RecordedLog(
            "its workers are other processes",
            (
                "ERROR 09-01 02:20:44 [engine.py:458] Timed out after 601 seconds waiting for "
                "clients. 1/8 clients joined.\n"
                "ERROR 09-01 02:20:44 [engine.py:458]     engine = MQLLMEngine.from_vllm_config(\n"
                "(RayWorkerWrapper pid=1890, ip=10.0.0.8) started"
            ),
            heads=("LG-201",),
        ),
    ),
)
