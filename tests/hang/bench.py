"""Start a job with real torch on lab nodes with Fullmesh's launcher, and query it as a user does."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from causes.job_faults import STATE
from lab_nodes import ENVIRONMENT, Node, run_fullmesh
from record_files import write_record

from fullmesh.hang import ask
from fullmesh.settings import ROOT
from fullmesh.verbs.hang import AGAIN
from fullmesh.verbs.watch import resolve_job_hosts

WORK = ROOT / ".fullmesh/hang"
ACCOUNT = "trainer"
HOME = "/srv/jobs"
TORCHRUN = "/opt/fullmesh/bin/fullmesh-torchrun"
READY_SECONDS = 90  # torch's import takes 2 s on an idle machine and 20 s on a busy one
READY_A_RANK = 10  # more for each rank, because many ranks start one after the other on few cores
ASK_SECONDS = 60
POLL = 0.1
# All of it is in the first line, so that the job's own lines keep their numbers. The job reports
# when it has reached the line to examine. If it asks to, it then waits until its node is broken.
PREAMBLE = (
    f"import os, time as _t; _s = {STATE!r}; _r = os.environ['RANK']\n"
    "def ready():\n    open(_s + '/new' + _r, 'w').write(str(os.getpid()))\n"
    "    os.rename(_s + '/new' + _r, _s + '/ready' + _r)\n"
    "def go():\n    while not os.path.exists(_s + '/go'): _t.sleep(0.01)\n"
)


@dataclass(frozen=True)
class Answer:
    """The output of ``./fullmesh hang``."""

    code: int
    findings: list[dict[str, Any]]
    seconds: float
    output: str

    @property
    def causes(self) -> list[dict[str, Any]]:
        """Return the findings that are causes, without their consequences."""
        return [one for one in self.findings if one["severity"] == "cause"]

    def describe_findings(self) -> str:
        """Return everything that helps to understand an unexpected result."""
        return json.dumps(self.findings, indent=1) + self.output[-3000:]


@dataclass
class Bench:
    """Nodes that ``site.yml`` has configured."""

    nodes: list[Node]
    inventory: Path

    def query_job(self, *options: str, seconds: float = ASK_SECONDS) -> Answer:
        """Run ``./fullmesh hang``."""
        begun = time.monotonic()
        done = run_fullmesh("hang", "-i", str(self.inventory), "--json", *options, seconds=seconds)
        took = time.monotonic() - begun
        try:
            findings = json.loads(done.stdout)["findings"]
        except ValueError:
            findings = []
        return Answer(done.returncode, findings, took, done.stdout + done.stderr)

    def record(self, path: Path) -> None:
        """Keep the ranks' answers to the collector, for tests/unit/recorded/hang_lab."""
        part = resolve_job_hosts(self.inventory)
        samples = ask.collect_samples(
            part["plan"], ask.query_hang_nodes(part["hosts"], "", [AGAIN])
        )
        text = json.dumps({"samples": samples}, separators=(",", ":"))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, text)

    def run_on_all(self, script: str) -> None:
        """Run a shell script on all nodes."""
        for node in self.nodes:
            node.on(script)


@dataclass
class Job:
    """A job that runs from ``with`` to its end.

    Attributes:
        script: of all ranks.
        files: other files next to it.
        ranks_per_node: the number. There are two nodes.
        options: further options of the launcher.
        starts: False if only its files are written.
    """

    bench: Bench
    script: str
    files: dict[str, str] = field(default_factory=dict)
    ranks_per_node: int = 1
    options: str = "--static --watch 0"
    starts: bool = True
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[IO[bytes]] = field(default_factory=list)

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return self.ranks_per_node * len(self.bench.nodes)

    def find_node(self, rank: int) -> Node:
        """Return the node of a rank."""
        return self.bench.nodes[rank // self.ranks_per_node]

    def __enter__(self) -> Job:
        """Start the job."""
        WORK.mkdir(parents=True, exist_ok=True)
        files = {**self.files, "train.py": PREAMBLE + self.script}
        for node in self.bench.nodes:
            # an interrupted run leaves its job behind
            node.on(
                f"pkill -KILL -u {ACCOUNT} || true; rm -rf {HOME}; install -d -o {ACCOUNT} {HOME} {STATE}"
            )
            for name, text in files.items():
                node.on(f"cat > {HOME}/{name} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")
        for node in self.bench.nodes if self.starts else []:
            self.logs.append((WORK / f"{node.name}.log").open("wb"))
            call = f"cd {HOME}; exec {TORCHRUN} {self.options} --nproc-per-node={self.ranks_per_node} train.py"
            self.running.append(
                subprocess.Popen(
                    [*node.enter, "runuser", "-u", ACCOUNT, "--", "sh", "-c", call],
                    env=ENVIRONMENT,
                    stdin=subprocess.PIPE,  # so that a rank that reads must wait
                    stdout=self.logs[-1],
                    stderr=subprocess.STDOUT,
                )
            )
        return self

    def read_pid(self, rank: int) -> str:
        """Return the process id of a rank on its node, "" before it is ready."""
        return self.find_node(rank).on(f"cat {STATE}/ready{rank} 2>/dev/null", check=False)

    def wait_until_ready(self) -> None:
        """Wait until every rank has reached its line."""
        deadline = time.monotonic() + READY_SECONDS + READY_A_RANK * self.world
        for rank in range(self.world):
            while not self.read_pid(rank):
                assert time.monotonic() < deadline, (
                    f"rank {rank} is not ready: {self.read_output()}"
                )
                time.sleep(POLL)

    def continue_ranks(self) -> None:
        """Let the waiting ranks continue."""
        self.bench.run_on_all(f"touch {STATE}/go")

    def locate_line(self, text: str, name: str = "train.py") -> str:
        """Return ``/srv/jobs/train.py:88``: the only line with a text, or the first after a mark ``N|``."""
        body = PREAMBLE + self.script if name == "train.py" else self.files[name]
        count, _, wanted = text.rpartition("|")
        numbers = [at for at, line in enumerate(body.splitlines(), 1) if wanted in line]
        return f"{HOME}/{name}:{numbers[int(count or 0)]}"

    def read_output(self) -> str:
        """Return the end of the job's output."""
        return "".join((WORK / f"{n.name}.log").read_text()[-2000:] for n in self.bench.nodes)

    def __exit__(self, *_: object) -> None:
        """End the job in any state."""
        for node in self.bench.nodes:
            node.on(f"pkill -KILL -u {ACCOUNT}", check=False)
        for process in self.running:
            process.kill()
            process.communicate()
        for log in self.logs:
            log.close()
