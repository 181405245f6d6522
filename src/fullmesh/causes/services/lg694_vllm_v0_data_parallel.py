"""vLLM: its old engine does not support data parallelism

vLLM's old engine (V0, MQLLMEngine) waits for {size} processes but is the only one, because it does
not start the other data-parallel ranks.

**Place:** the process of this log

**Prove:** run `env | grep VLLM_USE_V1` and check --data-parallel-size in the command line

**Fix:** Unset VLLM_USE_V1=0 (the V1 engine supports data parallelism), update vLLM, or remove
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
    """Find the old engine if it is alone in its store and started no workers."""
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
