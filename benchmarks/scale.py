"""Measure the controller's cost of many nodes, without any node: plan, preflight, checks, diagnosis, result and report.

    .venv/bin/python benchmarks/scale.py [--nodes 10 100 1000] [--rounds 3] [--stages plan report]

The nodes answer from recorded observations (tests/support/simulated_nodes.py). Each stage runs in its own process with
one thread. The output has its median CPU seconds, its peak memory (with the nodes' answers), and the exponent of growth
compared with the previous size: 1 grows like the nodes, 2 like their pairs.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("src", "tests/unit", "tests/support")]

import simulated_nodes  # noqa: E402 (the path is set above)

from fullmesh.filters.observe import diagnose, verify_cluster  # noqa: E402
from fullmesh.model import plan  # noqa: E402
from fullmesh.report import terminal, write  # noqa: E402
from fullmesh.result import read  # noqa: E402
from fullmesh.roles import preflight  # noqa: E402
from fullmesh.verify import schedule  # noqa: E402

RUN, BEGUN, ENDED = (
    "20260102T030405Z-abcd",
    "2026-01-02T03:04:05+00:00",
    "2026-01-02T03:04:15+00:00",
)


class Cluster:
    """Simulated nodes and their answers."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count, self.folder = count, folder
        self.plan, self.hostvars = simulated_nodes.make_hostvars(count)
        scope = schedule.build_probe_scope(self.plan, "auto", [], False, RUN)
        self.options = {**simulated_nodes.OPTIONS, "scope": scope}
        self.hosts = list(self.hostvars)
        self.result = folder / f"{count}/result.json"

    def make_plan(self) -> str:
        """Make the plan from the inventory."""
        made = plan.derive_from_hostvars(self.hostvars, self.hosts)
        return f"{len(json.dumps(made)) / 1e3:.0f} kB"

    def first_look(self) -> str:
        """Run preflight."""
        epoch = self.hostvars[self.hosts[0]]["__preflight"]["ansible_facts"]["fullmesh"]["epoch"]
        look: preflight.PreflightInput = {"now": epoch, "asked": {}, "converge": "auto"}
        found = preflight.judge_preflight(self.plan, self.hostvars, self.hosts, look)
        if found["faults"]:
            sys.exit(f"preflight refuses the simulated nodes: {found['faults'][:3]}")
        return ""

    def ladder(self) -> str:
        """Evaluate all checks twice: before the job starts, without its answers, and at the end."""
        before = {
            name: {key: own[key] for key in own if not key.endswith(("_started", "_gloo"))}
            for name, own in self.hostvars.items()
        }
        start = verify_cluster.ladder_may_start(
            self.plan, simulated_nodes.group_answers(before), self.options
        )
        about = {"name": RUN, "started": BEGUN, "finished": ENDED, "lab": ""}
        result = verify_cluster.ladder_result(
            self.plan,
            self.hostvars,
            simulated_nodes.group_answers(self.hostvars),
            self.options,
            about,
        )
        if not start["go"] or result["findings"]:
            sys.exit(
                f"the simulated nodes are not healthy: {start['reason']} {result['findings'][:2]}"
            )
        text = json.dumps(result, indent=2)
        write.write_whole_file(self.result, text)
        return f"{len(text) / 1e6:.2f} MB"

    def report(self) -> str:
        """Write the other files of a result and its report, and the summary for the terminal."""
        made = write.write_reports_beside(self.result)
        terminal.format_summary(read.load_result(self.result))
        return ", ".join(f"{path.name} {path.stat().st_size / 1e6:.2f} MB" for path in made)

    def diagnosis(self) -> str:
        """Evaluate the answers for ./fullmesh diagnose."""
        scope = self.options["scope"]
        about = {"run": RUN, "started": BEGUN, "finished": ENDED, "scope": scope}
        own = simulated_nodes.group_diagnosis_answers(self.plan, self.hostvars)
        found = diagnose.diagnose_result(own, self.hosts, about)
        if found["findings"]:
            sys.exit(f"the simulated nodes are not healthy: {found['findings'][:2]}")
        return f"{len(json.dumps(found)) / 1e6:.2f} MB"


STAGES: dict[str, Callable[[Cluster], str]] = {
    "plan": Cluster.make_plan,
    "preflight": Cluster.first_look,
    "ladder": Cluster.ladder,
    "report": Cluster.report,
    "diagnosis": Cluster.diagnosis,
}


def apart(cluster: Cluster, stage: Callable[[Cluster], str]) -> dict[str, Any]:
    """Run a stage in a child; return its seconds, its peak memory in MB, and its result."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            begun = time.process_time()
            said = stage(cluster)
            spent = time.process_time() - begun
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            with os.fdopen(theirs, "w") as told:
                json.dump({"seconds": spent, "most": most, "said": said}, told)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as told:
        text = told.read()
    os.waitpid(pid, 0)
    if not text:
        sys.exit(f"{stage.__name__} failed for {cluster.count} nodes")
    found: dict[str, Any] = json.loads(text)
    return found


def exponent(small: tuple[int, float], large: tuple[int, float]) -> float:
    """Return the power of the number of nodes by which something grew between two sizes."""
    return math.log(max(large[1], 1e-4) / max(small[1], 1e-4)) / math.log(large[0] / small[0])


def measure(counts: list[int], rounds: int, stages: list[str]) -> None:
    """Print one line for each stage and size."""
    print("stage      nodes   seconds   ms a node   exponent   peak MB   made")
    seen: dict[str, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as base:
        for count in counts:
            (Path(base) / str(count)).mkdir()
            cluster = Cluster(count, Path(base))
            gc.freeze()
            for name in stages:
                runs = [apart(cluster, STAGES[name]) for _ in range(rounds)]
                seconds = statistics.median(run["seconds"] for run in runs)
                grown = f"{exponent(seen[name], (count, seconds)):.2f}" if name in seen else "-"
                seen[name] = (count, seconds)
                most = max(run["most"] for run in runs)
                each = 1000 * seconds / count
                line = (
                    f"{name:<9} {count:>6} {seconds:>9.2f} {each:>11.2f} {grown:>10} {most:>9.0f}"
                )
                print(f"{line}   {runs[-1]['said']}", flush=True)


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    args = parser.parse_args()
    measure(args.nodes, args.rounds, args.stages)


if __name__ == "__main__":
    main()
