"""``fullmesh test``: what CI checks, in parts, with progress and a log for each part; ``--all`` runs the rest as well.

CI's selection is what a landing waits for: linters, unit tests, every role on both families, the demo end to end, one
cut per mechanism, one fault per family of rules. Whole parts are left to ``--all`` here (``rest``), single tests by
the marker ``rest``.

A runner of our own, since parts side by side are what makes forty minutes of an hour: tox has no deadline for an
environment, and nox runs sessions side by side only since 2026.08.17, as an experiment, with a session's output when it
ends (wntrblm/nox#1131): half an hour of silence, and a hung one is never ended.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from fullmesh.catalogue import add_verb
from fullmesh.settings import ROOT

LOGS = ROOT / ".fullmesh/logs"
GPU = ROOT / ".fullmesh/gpu"  # records of the GPU acceptance
# Where only a log is kept, the signs of life must not push the reasons out of it.
HEARTBEAT_SECONDS = 10 if sys.stdout.isatty() else 30
TAIL_LINES = 60
# What names the reason in the logs of pytest, Ansible and the linters; Ansible's words come after its "fatal".
REASON = re.compile(r"^(FAILED (?!- RETRY)|ERROR|E  |CRITICAL|failed: |\S+:\d+: )|stopped after")
FATAL, FATAL_LINES = re.compile(r"^fatal: "), 25
REASON_LINES = 60
KINDS = ("action", "callback", "filter")  # of Ansible's plugins
# A hung part must end before CI's own limit does, so that its log is shown.
PART_SECONDS = 1800
# How a part is ended: the signal, the seconds that it has for it, what is said when that was enough.
ENDINGS = (
    (signal.SIGINT, 120.0, "it ended as it does at a keyboard"),
    (signal.SIGKILL, 10.0, "it was killed, and what it made may still run"),
)


@dataclass(frozen=True)
class Part:
    """One command of the test run.

    Attributes:
        name: how it is called on the terminal and in the log's name.
        command: argv.
        slow: needs the lab; left out by ``--fast``.
        rest: left to ``--all``, or to whoever asks for it by name.
        less: words that leave some of its tests to ``--all`` and to whoever asks for the part by name.
        less_env: variables that do the same.
        env: variables on top of this process's own.
        seconds: after which it is stopped; 0 for PART_SECONDS.
    """

    name: str
    command: Sequence[str]
    slow: bool = False
    rest: bool = False
    less: Sequence[str] = ()
    less_env: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def word(self) -> str:
        """Its name as one word, which a shell completes and needs no quotes."""
        return self.name.replace(" ", "-")


@dataclass
class Outcome:
    """How a part ended."""

    part: Part
    code: int
    seconds: float
    log: Path
    tail: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def shell_files() -> list[str]:
    """Every shell script of the tree, by its first line or its ending."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    result = []
    for name in listed:
        path = ROOT / name
        if not path.is_file() or path.suffix == ".j2":
            continue
        with path.open("rb") as handle:
            first = handle.readline(64)
        if first.startswith(b"#!") and first.rstrip().endswith((b"bash", b"/sh", b"bash -e")):
            result.append(name)
    return result


def lint_parts() -> list[Part]:
    """The linters, none with a skip list."""
    return [
        Part("ruff check", ["ruff", "check", "."]),
        Part("ruff format", ["ruff", "format", "--check", "."]),
        Part(
            "mypy",
            [
                "mypy",
                "src",
                *(f"{kind}_plugins" for kind in KINDS),
                "library",
                "module_utils",
                "node_programs",
                "roles/verify_cluster/files",
            ],
        ),
        Part("yamllint", ["yamllint", "--strict", "."]),
        Part("shellcheck", ["shellcheck", *shell_files()]),
        Part(
            "ansible-lint",
            ["ansible-lint", "--offline", "--strict"],
            env={"PYTHONPATH": os.pathsep.join((str(ROOT / "tests/lint"), str(ROOT / "src")))},
        ),
    ]


def git(*words: str) -> list[str]:
    """What git prints, a line each; nothing where it has nothing to say."""
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed() -> list[str]:
    """The files that differ from the branch that others build on, committed or not; without one, from HEAD."""
    base = git("merge-base", "HEAD", "@{upstream}") or git("merge-base", "HEAD", "main") or ["HEAD"]
    names = [*git("diff", "--name-only", base[0]), *git("ls-files", "-o", "--exclude-standard")]
    return sorted({name for name in names if (ROOT / name).is_file()})


def of_ansible(name: str) -> bool:
    """Whether ansible-lint has rules for a file."""
    return name.endswith((".yml", ".yaml")) or name.startswith(("library/", "roles/"))


def narrowed(part: Part) -> Part | None:
    """The part for ``--fast``: ansible-lint reads what changed only, and stays away where nothing did."""
    if part.name != "ansible-lint":
        return part
    names = [name for name in changed() if of_ansible(name)]
    return replace(part, command=[*part.command, *names]) if names else None


def scenarios() -> list[str]:
    """The molecule scenarios of the tree."""
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))


# A scenario named after a role belongs to CI's selection; these show a behaviour across roles or a second way.
BEHAVIOURS = ("bundle", "links", "peer_firewall_job", "peer_firewall_ufw", "undo_point")


# Files of tests/e2e, each with a lab of its own, that are left to --all.
REST = (
    "adversary",
    "bisect",
    "collection",
    "containers",
    "dhcp",
    "gpus",
    "ifcfg",
    "ipv6",
    "join",
    "neighbours",
    "package_locks",
    "pages",
    "real_neighbours",
    "services",
    "services_ipv6",
    "slices",
    "watch",
)
# On a busy machine one way from bare nodes and back takes a quarter of an hour, and the pages tell three.
OF_REST = {"pages": 5400.0}
WITHOUT_REST = ("-m", "not rest")
# Sets of texts come in the same order, too; examples of properties are the same by default (tests/unit/conftest.py).
SAME_EACH_TIME = {"PYTHONHASHSEED": "0"}
RANDOM = ("-m", "hypothesis", "--hypothesis-profile=random")
# A scenario's playbooks and its sequence read it; without it, as when molecule is called by hand, they do all they can.
# A dry run on bare nodes is the site's there, for all roles at once; "dependency" is switched off, so it does nothing.
SELECTION = {"FULLMESH_TEST_SELECTION": "1", "FULLMESH_TEST_CHECK": "dependency"}


def end_to_end(name: str, where: str, *, rest: bool = False, seconds: float = 0.0) -> Part:
    """A file or a folder of tests; each has a lab of its own."""
    command = [sys.executable, "-m", "pytest", "-v", where]
    return Part(
        f"end to end {name}", command, slow=True, rest=rest, less=WITHOUT_REST, seconds=seconds
    )


def faults() -> Part:
    """Breaks lab nodes and asks what is wrong; its two labs go side by side, so it needs both processors for itself."""
    words = "-m pytest -v -n 2 --dist loadfile tests/faults"
    command = [sys.executable, *words.split()]
    return Part("end to end faults", command, slow=True, less=WITHOUT_REST)


# What takes longest goes first, so that nothing waits for it at the end (seconds of CI's own table).
LONGEST = (
    "end to end cuts",
    "end to end site",
    "end to end watch",
    "molecule launchers",
    "molecule nccl",
    "molecule verify_cluster",
    "molecule peer_firewall",
    "molecule links",
    "end to end dhcp",
    "molecule selinux_mode",
)


def on_lab() -> list[Part]:
    """All that goes side by side on the lab, each part with a lab of its own, the longest first."""
    every = [
        *(
            Part(
                f"molecule {name}",
                ["molecule", "test", "-s", name],
                slow=True,
                rest=name in BEHAVIOURS,
                less_env=SELECTION,
            )
            for name in scenarios()
        ),
        end_to_end("site", "tests/e2e/test_site.py"),
        # 5 ways to interrupt a run, in 8 phases: an hour with --all
        end_to_end("interrupted", "tests/e2e/test_interrupted.py", seconds=5400),
        *(
            end_to_end(name, f"tests/e2e/test_{name}.py", rest=True, seconds=OF_REST.get(name, 0.0))
            for name in REST
        ),
        # 20 minutes, and 50 drawn schedules of about a minute
        end_to_end("cuts", "tests/cuts", seconds=5400),
        end_to_end("surprises", "tests/surprises", seconds=5400),
    ]
    names = [part.name for part in every]
    first = [every[names.index(name)] for name in LONGEST]
    return [*first, *(part for part in every if part not in first)]


def parts() -> list[list[Part]]:
    """The stages in order; the parts of one stage do not collide and run side by side."""
    fullmesh = [sys.executable, "-m", "fullmesh"]
    pytest = [sys.executable, "-m", "pytest"]
    return [
        [
            # mostly waits for mirrors and the disk: what follows has the processors meanwhile
            Part("lab images", [*fullmesh, "lab", "build"], slow=True),
            *lint_parts(),
            # amazon.aws against a mock of EC2 on 127.0.0.1
            Part("ec2", [*pytest, "-q", "-n", "2", "tests/ec2"], slow=True, less=WITHOUT_REST),
            # the whole site and Ansible's word on every module: a minute
            Part("docs", [*pytest, "-q", "tests/docs"], slow=True, less=WITHOUT_REST),
        ],
        # many tests wait for clocks and children: four workers fill two processors (150 s; two need 183)
        [Part("unit", [*pytest, "-q", "-n", "4"], less=WITHOUT_REST, less_env=SAME_EACH_TIME)],
        # properties once more, with examples that nobody has seen
        [Part("random properties", [*pytest, "-q", "-n", "4", *RANDOM], slow=True, rest=True)],
        # the unit tests once more, under coverage
        [
            Part(
                "codes",
                [sys.executable, "tests/support/provoked.py"],
                slow=True,
                rest=True,
            )
        ],
        # those of node code, with the oldest and the newest Python of nodes
        [
            Part(
                "node pythons",
                [sys.executable, "tests/support/node_pythons.py"],
                slow=True,
                rest=True,
                env={"PYTHONPATH": str(ROOT / "src")},
            )
        ],
        # every call of a transaction, and 100,000 bent files a parser: half an hour of both processors
        [
            Part(
                "reliability",
                [*pytest, "-v", "-n", "2", "tests/reliability"],
                slow=True,
                rest=True,
                seconds=3600,
            )
        ],
        # setuptools comes from the package index
        [Part("install", [*pytest, "-q", "tests/install"], slow=True, less=WITHOUT_REST)],
        # ansible-test's own linters, from the package index
        [
            Part(
                "sanity",
                [sys.executable, "tests/support/sanity.py"],
                slow=True,
                rest=True,
                env={"PYTHONPATH": str(ROOT / "src")},
            )
        ],
        # sshds of their own in namespaces; where this machine has none, its package is fetched
        [Part("fleet", [*pytest, "-v", "tests/fleet"], slow=True, rest=True)],
        # packages of the system's own (a browser), so not for --fast
        [Part("report in a browser", [*pytest, "-v", "tests/browser"], slow=True, rest=True)],
        on_lab(),
        [faults()],
        # real torch on two nodes, 30 jobs one after the other
        [
            Part(
                "end to end hang", [*pytest, "-v", "tests/hang"], slow=True, rest=True, seconds=5400
            )
        ],
        # on a GPU if this machine has one, with stand-ins if it has torch alone; else it says so
        [
            Part(
                "gpu",
                [sys.executable, "tests/gpu/acceptance.py", "--device", "auto", "--out", str(GPU)],
                slow=True,
                rest=True,
            )
        ],
        # alone: two emulated machines take two processors; 5150 s beside five times as much work
        [Part("end to end vm", [*pytest, "-vx", "tests/vm"], slow=True, rest=True, seconds=7200)],
    ]


def part_words() -> list[str]:
    """Return the name of every part as one word, for completion."""
    return [part.word for stage in parts() for part in stage]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``test``."""
    parser = add_verb(verbs, "test")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="leave out parts that need the lab; ansible-lint reads only changed files",
    )
    parser.add_argument(
        "--all", action="store_true", help="run also the parts that CI leaves out to save time"
    )
    parser.add_argument("--list", action="store_true", help="print the parts and stop")
    parser.add_argument(
        "part", nargs="*", help="only these parts (a name, or its first words; - for a space)"
    )
    parser.set_defaults(func=run, offer_part=part_words)


def _say(text: str) -> None:
    print(f"fullmesh test: {text}", flush=True)


def end(process: subprocess.Popen[bytes]) -> str:
    """End a part; return what it took.

    First as a keyboard would, so that pytest takes its labs and machines away: the next part would find the ports of a
    machine that goes on.
    """
    for number, seconds, took in ENDINGS:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return took
    return "it does not end"


def run_part(part: Part) -> Outcome:
    """Run one part into its log, with a sign of life every ten seconds."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{part.word}.log"
    limit = part.seconds or PART_SECONDS
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            _say(f"{part.name}: {time.monotonic() - started:.0f} s … {last[:100]}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    env = dict(os.environ, PYTHONUNBUFFERED="1", ANSIBLE_FORCE_COLOR="0", NO_COLOR="1", **part.env)
    # Container images set it; without byte code each of a thousand processes compiles us anew (0.4 of 1.7 s).
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with log.open("w") as out:
        process = subprocess.Popen(
            list(part.command),
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped after {limit} s: {end(process)}\n")
            code = 124
    done.set()
    thread.join()
    lines = log.read_text(errors="replace").splitlines()
    seconds = time.monotonic() - started
    return Outcome(part, code, seconds, log, lines[-TAIL_LINES:], reasons(lines) if code else [])


def reasons(lines: Sequence[str]) -> list[str]:
    """The lines of a log that say why it failed, the last ones."""
    found, until = [], 0
    for number, line in enumerate(lines):
        if FATAL.search(line):
            until = number + FATAL_LINES
        if number < until or REASON.search(line):
            found.append(line[:400])
    return found[-REASON_LINES:]


def report(outcome: Outcome) -> None:
    """One line for a part, and the end of its log when it failed."""
    word = "ok" if outcome.code == 0 else f"FAILED (exit {outcome.code})"
    last = outcome.tail[-1].strip() if outcome.tail and outcome.code == 0 else ""
    _say(f"{outcome.part.name}: {word} in {outcome.seconds:.0f} s  {last[:110]}")
    if outcome.code:
        print("\n".join(f"  | {line}" for line in outcome.tail), flush=True)
        _say(f"{outcome.part.name}: the whole log is {outcome.log}")


def selection(part: Part) -> Part:
    """The part without what is left to ``--all``."""
    return replace(part, command=[*part.command, *part.less], env={**part.env, **part.less_env})


def chosen(stages: Iterable[list[Part]], args: argparse.Namespace) -> list[list[Part]]:
    """The stages with the parts that the command line asks for; whole, where it asks for all or for a name."""
    whole = args.all or bool(args.part)
    result = []
    for stage in stages:
        keep = [part for part in stage if not (args.fast and part.slow)]
        if args.fast:
            keep = [one for part in keep if (one := narrowed(part)) is not None]
        if args.part:
            asked = tuple(word.replace(" ", "-") for word in args.part)
            keep = [part for part in keep if part.word.startswith(asked)]
        if not whole:
            keep = [selection(part) for part in keep if not part.rest]
        if keep:
            result.append(keep)
    return result


def run(args: argparse.Namespace) -> int:
    """Run the parts; 0 when all passed."""
    stages = chosen(parts(), args)
    if not stages:
        names = ", ".join(part.name for stage in parts() for part in stage)
        print(f"fullmesh: [CL-108] no part {args.part}. Known: {names}.", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(part.name for stage in stages for part in stage))
        return 0
    outcomes: list[Outcome] = []
    lab = True
    for wanted in stages:
        stage = [part for part in wanted if lab or not part.slow]
        # Three at a time left 10 % of two processors idle, and leases came too late for the cuts: not worth it.
        with ThreadPoolExecutor(max_workers=2) as pool:
            for future in as_completed([pool.submit(run_part, part) for part in stage]):
                report(future.result())
                outcomes.append(future.result())
        if lab and any(one.part.name == "lab images" and one.code for one in outcomes):
            lab = False
            _say("the lab's images could not be built, so nothing that needs them can run")
    return summary(outcomes)


def summary(outcomes: Sequence[Outcome]) -> int:
    """The table of times and the closing line."""
    failed = [outcome for outcome in outcomes if outcome.code]
    print("\npart                             seconds  result")
    for outcome in outcomes:
        word = "ok" if outcome.code == 0 else "FAILED"
        print(f"{outcome.part.name:<32} {outcome.seconds:>7.0f}  {word}")
    for outcome in failed:
        print(f"failed: {outcome.part.name}, log: {outcome.log}")
        print("\n".join(f"  | {line}" for line in outcome.reasons or outcome.tail[-REASON_LINES:]))
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed", flush=True)
    return 1 if failed else 0
