"""Results of clusters of any size, healthy and broken, for the tests of the reports."""

from __future__ import annotations

import copy
import random
from typing import Any

from ladder_samples import healthy

from fullmesh.diagnose import root_cause
from fullmesh.verify import build


def build_result(seen: Any = None, name: str = "20260102T030405Z-abcd") -> dict[str, Any]:
    """A result as the ladder makes it."""
    about = build.VerificationRun(name, "2026-01-02T03:04:05.5+00:00", "2026-01-02T03:04:15+00:00")
    return root_cause.build_result(seen or healthy(), about)


def make_dropped_link() -> dict[str, Any]:
    """Three nodes, one of which cannot be reached from another."""
    seen = healthy(mode="off")
    for record in seen.nodes["el1"]["links"]["links"]:
        if record["node"] == "ubuntu1":
            record["verdict"] = "dropped"
    return build_result(seen)


def link(source: str, target: str, rtt: float, verdict: str = "open") -> dict[str, Any]:
    """One row of the matrix."""
    made: dict[str, Any] = {"from": source, "to": target, "verdict": verdict, "ports": []}
    if verdict == "open":
        return {**made, "ms": 3 * rtt, "rtt_ms": rtt, "mbit_s": 9400.0, "loss": 0.0}
    ports = [{"port": 50011, "kind": "sample", "verdict": verdict}]
    return {**made, "ms": None, "rtt_ms": None, "ports": ports}


def large(count: int, broken: bool = True) -> dict[str, Any]:
    """Make a cluster of *count* nodes. Broken: the third one is unreachable, and one has another torch."""
    chance = random.Random(count)  # noqa: S311 (the same picture every time, no secret)
    made = build_result()
    names = [f"gpu-{index:03d}" for index in range(count)]
    node, planned = made["nodes"]["el1"], made["plan"]["nodes"]["el1"]
    made["nodes"] = {name: copy.deepcopy(node) for name in names}
    made["plan"]["nodes"] = {name: {**planned, "name": name} for name in names}
    made["plan"]["world_size"] = made["plan"]["nnodes"] = count
    made["links"] = [
        link(
            source,
            target,
            round(0.03 + 0.02 * chance.random(), 3),
            "dropped" if broken and target == names[2] else "open",
        )
        for source in names
        for target in names
        if source != target
    ]
    if broken:
        made["nodes"][names[-1]]["torch"] = "2.12.1+cpu"
        sample = make_dropped_link()
        made |= {key: sample[key] for key in ("verdict", "failed_rungs", "findings", "exit_code")}
        made["rungs"] = sample["rungs"]
        finding = made["findings"][0]
        made["findings"] = [{**finding, "follows": [{**finding, "code": "VC-301"}]}]
    return made


# What may come from a node's name, a log or a command's output, and must stay text everywhere.
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\"' onmouseover=document.title='owned' x='",
    "]]></failure><testcase name='owned'/>",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m",
    "el1\u202egpj.exe\u2066",
    "a\x00b\x08c\ud800\ufffe",
    "[bold]markup[/bold][/]",
    "line one\nOK: 2 nodes\r\n::error::owned",
    "<!-- <script> -->",
    "\u2028alert(1)\u2029",
)


def poison_texts(value: Any, text: str) -> Any:
    """The same result with *text* behind every string that nodes or logs decide."""
    kept = {
        "id",
        "status",
        "verdict",
        "code",
        "severity",
        "run",
        "started",
        "finished",
        "kind",
        "rung",
        "step",
    }
    if isinstance(value, dict):
        return {k: v if k in kept else poison_texts(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [poison_texts(one, text) for one in value]
    return value + text if isinstance(value, str) else value


def hostile(text: str, count: int = 3) -> dict[str, Any]:
    """A broken result in which every free text, every node's name and a rank's log is hostile."""
    made: dict[str, Any] = poison_texts(large(count) if count > 3 else make_dropped_link(), text)
    names = {name: name + text for name in made["nodes"]}
    made["nodes"] = {names[name]: node for name, node in made["nodes"].items()}
    made["plan"]["nodes"] = {names[name]: node for name, node in made["plan"]["nodes"].items()}
    ranks = [
        {
            "rank": 0,
            "node": text,
            "step": "init",
            "state": text,
            "text": text,
            "log": f"{text}\n{text}",
        }
    ]
    made["rungs"][3]["details"]["ranks"] = ranks
    made["not_looked_at"] = [{"node": text, "what": text, "why": text}]
    made["notes"] = [{"node": text, "code": "PF-201", "text": text}]
    return made
