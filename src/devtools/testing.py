"""The verb ``fullmesh test``: run CI's checks in parts, with progress and a log for each part.

Fullmesh has its own runner, because parallel parts save 20 min of an hour. tox has no deadline for an environment. nox
runs sessions in parallel only since 2026.08.17, as an experiment, and prints a session's output when it ends
(wntrblm/nox#1131). So a long session is silent, and a hung one never ends.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from devtools.parts import Part, choose_shard, list_part_words, list_stages, select_for_ci
from devtools.systems import record_runs
from fullmesh.catalogue import add_verb
from fullmesh.settings import ROOT

LOGS = ROOT / ".fullmesh/logs"
# In a log without a terminal, progress lines must not push the reasons out.
HEARTBEAT_SECONDS = 10 if sys.stdout.isatty() else 30
TAIL_LINES = 60
# Lines with the reason in the logs of pytest, Ansible and the linters. Ansible's message follows its "fatal".
REASON = re.compile(r"^(FAILED (?!- RETRY)|ERROR|E  |CRITICAL|failed: |\S+:\d+: )|stopped after")
FATAL, FATAL_LINES = re.compile(r"^fatal: "), 25
REASON_LINES = 60
# A hung part must end before CI's own limit, so that its log is shown.
PART_SECONDS = 1800
# How a part is ended: the signal, its time limit in seconds, and the message if that was enough.
ENDINGS = (
    (signal.SIGINT, 120.0, "it ended as it does at a keyboard"),
    (signal.SIGKILL, 10.0, "it was killed, and what it made may still run"),
)
# A run of CI and the time that it leaves unused. A shard starts if 35 min are left. It takes 25 min at most, so that a
# landing does not wait for 1.5 h. A part of it starts only if at least 10 of these are left.
CI_SECONDS, SPARE_SECONDS = 5400.0, 300.0
LEAST_SHARD_SECONDS, MOST_SHARD_SECONDS, LEAST_PART_SECONDS = 2100.0, 1500.0, 600.0
STOPPED, NO_TESTS = 124, 5
# pytest's short summary
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass
class Outcome:
    """The result of a part."""

    part: Part
    code: int
    seconds: float
    log: Path
    tail: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def git(*words: str) -> list[str]:
    """Return the output lines of a git command; empty if it prints nothing."""
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed() -> list[str]:
    """List the files that differ from the upstream branch, committed or not. Without one, compare with HEAD."""
    base = git("merge-base", "HEAD", "@{upstream}") or git("merge-base", "HEAD", "main") or ["HEAD"]
    names = [*git("diff", "--name-only", base[0]), *git("ls-files", "-o", "--exclude-standard")]
    return sorted({name for name in names if (ROOT / name).is_file()})


def of_ansible(name: str) -> bool:
    """Return whether ansible-lint has rules for a file."""
    return name.endswith((".yml", ".yaml")) or name.startswith(("library/", "roles/"))


def narrowed(part: Part) -> Part | None:
    """Return the part for ``--fast``: ansible-lint checks changed files only, and is skipped if there are none."""
    if part.name != "ansible-lint":
        return part
    names = [name for name in changed() if of_ansible(name)]
    return replace(part, command=[*part.command, *names]) if names else None


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``test``."""
    parser = add_verb(verbs, "test")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="leave out parts that need the lab; ansible-lint reads only changed files",
    )
    parser.add_argument(
        "--all", action="store_true", help="also run the parts that CI leaves out to save time"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the parts that pass, with all their tests, to docs/development/systems.md",
    )
    parser.add_argument("--list", action="store_true", help="list the parts and exit")
    parser.add_argument(
        "part", nargs="*", help="run only these parts: a name or its first words, with - or spaces"
    )
    parser.add_argument(
        "--shard",
        action="store_true",
        help="run some parts of --all, chosen by the commit. A failed part runs once more",
    )
    parser.add_argument(
        "--elapsed",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="with --shard: seconds of CI's 90 minutes that have passed",
    )
    parser.set_defaults(func=run, offer_part=list_part_words)


def _say(text: str) -> None:
    print(f"fullmesh test: {text}", flush=True)


def end(process: subprocess.Popen[bytes]) -> str:
    """End a part; return how it ended.

    First send SIGINT as a keyboard would, so that pytest removes its labs and machines. Otherwise the next part would
    find the ports of a machine in use.
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
    """Run one part with its output in a log, and print a progress line every 10 s."""
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
    # Container images set this. Without byte code, each of 1000 processes compiles Fullmesh again (0.4 of 1.7 s).
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
            code = STOPPED
    done.set()
    thread.join()
    lines = log.read_text(errors="replace").splitlines()
    seconds = time.monotonic() - started
    return Outcome(part, code, seconds, log, lines[-TAIL_LINES:], reasons(lines) if code else [])


def reasons(lines: Sequence[str]) -> list[str]:
    """Return the last lines of a log that show why it failed."""
    found, until = [], 0
    for number, line in enumerate(lines):
        if FATAL.search(line):
            until = number + FATAL_LINES
        if number < until or REASON.search(line):
            found.append(line[:400])
    return found[-REASON_LINES:]


def report(outcome: Outcome) -> None:
    """Print one line for a part, and the end of its log if it failed."""
    word = "ok" if outcome.code == 0 else f"FAILED (exit {outcome.code})"
    last = outcome.tail[-1].strip() if outcome.tail and outcome.code == 0 else ""
    _say(f"{outcome.part.name}: {word} in {outcome.seconds:.0f} s  {last[:110]}")
    if outcome.code:
        print("\n".join(f"  | {line}" for line in outcome.tail), flush=True)
        _say(f"{outcome.part.name}: the whole log is {outcome.log}")


def chosen(stages: Iterable[list[Part]], args: argparse.Namespace) -> list[list[Part]]:
    """Select the parts that the command line requests; with all their tests for ``--all`` or a named part."""
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
            keep = [select_for_ci(part) for part in keep if not part.rest]
        if keep:
            result.append(keep)
    return result


def run(args: argparse.Namespace) -> int:
    """Run the parts; 0 if all passed."""
    # In a job that a shell started in the background, SIGINT is ignored, and every part would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.shard:
        return run_shard(args.elapsed)
    stages = chosen(list_stages(), args)
    if not stages:
        names = ", ".join(part.name for stage in list_stages() for part in stage)
        print(f"fullmesh: [CL-108] No part {args.part}. Known: {names}.", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(part.name for stage in stages for part in stage))
        return 0
    # a changed tree is marked
    commit = (git("describe", "--always", "--dirty", "--exclude=*") or ["unknown"])[0]
    outcomes: list[Outcome] = []
    lab = True
    for wanted in stages:
        stage = [part for part in wanted if lab or not part.slow]
        # Three in parallel left 10 % of two CPUs idle, and leases came too late for the cuts.
        with ThreadPoolExecutor(max_workers=2) as pool:
            for future in as_completed([pool.submit(run_part, part) for part in stage]):
                report(future.result())
                outcomes.append(future.result())
        if lab and any(one.part.name == "lab images" and one.code for one in outcomes):
            lab = False
            _say("the lab's images could not be built, so nothing that needs them can run")
    if args.record:
        record_runs([(one.part, one.seconds) for one in outcomes if not one.code], commit)
    return summary(outcomes)


def summary(outcomes: Sequence[Outcome]) -> int:
    """Print the table of times and the closing line."""
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


@dataclass(frozen=True)
class Verdict:
    """The result of a part of a shard.

    Attributes:
        outcome: the result of its last run.
        failed: tests that failed twice, or the part's name if it names none.
        flaky: tests that failed once and passed once.
        cut: the shard's time was over before the part, or its repetition, had ended.
    """

    outcome: Outcome
    failed: frozenset[str] = frozenset()
    flaky: frozenset[str] = frozenset()
    cut: bool = False

    @property
    def word(self) -> str:
        """The result as one word."""
        if self.failed:
            return "FAILED"
        return "cut off" if self.cut else "flaky" if self.flaky else "ok"


def find_shard_end(elapsed: float, now: float) -> float | None:
    """Find the time at which the last part of a shard must be stopped, even if it ignores SIGINT; None: no shard."""
    left = CI_SECONDS - elapsed
    if left < LEAST_SHARD_SECONDS:
        return None
    stubborn = sum(seconds for _, seconds, _ in ENDINGS)
    return now + min(left - SPARE_SECONDS - stubborn, MOST_SHARD_SECONDS)


def list_failed_tests(outcome: Outcome) -> frozenset[str]:
    """List the failed tests in pytest's summary; empty if the part passed, or the summary names none."""
    if not outcome.code:
        return frozenset()
    return frozenset(FAILED_TEST.findall(outcome.log.read_text(errors="replace")))


def judge_repetition(first: Outcome, again: Outcome) -> Verdict:
    """Compare two runs of a part whose first run failed: a test that failed in only one of them is flaky."""
    whole = frozenset({first.part.name})
    before, after = list_failed_tests(first), list_failed_tests(again)
    if not again.code:
        return Verdict(again, flaky=before or whole)
    if not before or not after:  # a run that ended without naming a test failed as a whole
        return Verdict(again, failed=before | after | whole)
    return Verdict(again, failed=before & after, flaky=before ^ after)


def run_limited(part: Part, end: float) -> tuple[Outcome, bool]:
    """Run a part until its own deadline or the shard's end; return whether the shard's end stopped it."""
    own, left = part.seconds or PART_SECONDS, max(1.0, end - time.monotonic())
    outcome = run_part(replace(part, seconds=min(own, left)))
    if outcome.code == NO_TESTS and "pytest" in part.command:
        outcome.code = 0
    return outcome, outcome.code == STOPPED and left < own


def run_twice_if_failed(part: Part, end: float) -> Verdict | None:
    """Run a part of a shard, and repeat it if it fails; None if there is no time to start it."""
    if end - time.monotonic() < LEAST_PART_SECONDS:
        return None
    first, cut = run_limited(part, end)
    report(first)
    if cut or not first.code:
        return Verdict(first, cut=cut)
    again, cut = run_limited(replace(part, name=f"{part.name} again"), end)
    report(again)
    return Verdict(first, cut=True) if cut else judge_repetition(first, again)


def run_slices(parts: Sequence[Part], end: float) -> list[Verdict]:
    """Run slices of one part one after another, because they use the same lab."""
    verdicts = (run_twice_if_failed(part, end) for part in parts)
    return [verdict for verdict in verdicts if verdict is not None]


def run_shard(elapsed: float) -> int:
    """Run as many parts of ``--all`` as CI's time allows; 1 if a test failed twice.

    An error of the shard itself is shown, but does not reject a change.
    """
    end = find_shard_end(elapsed, time.monotonic())
    if end is None:
        _say("no shard of --all: less than 35 minutes are left")
        return 0
    try:
        stages = choose_shard(list_stages(), git("rev-parse", "HEAD")[0], CI_SECONDS)
        verdicts: list[Verdict] = []
        for stage in stages:
            # slices of one part have the same command
            groups = [
                list(group) for _, group in itertools.groupby(stage, key=lambda part: part.command)
            ]
            with ThreadPoolExecutor(max_workers=2) as pool:
                for future in as_completed(
                    [pool.submit(run_slices, group, end) for group in groups]
                ):
                    verdicts += future.result()
        return summarize_shard(verdicts)
    except Exception:
        traceback.print_exc()
        _say("the shard of --all ended by an error of its own; it says nothing of this commit")
        return 0


def summarize_shard(verdicts: Sequence[Verdict]) -> int:
    """Print the table of times, flaky and failed tests and the closing line; 1 if a test failed twice."""
    print("\npart of --all                    seconds  result")
    for verdict in verdicts:
        outcome = verdict.outcome
        print(f"{outcome.part.name:<32} {outcome.seconds:>7.0f}  {verdict.word}")
    for verdict in verdicts:
        for test in sorted(verdict.flaky):
            print(f"flaky: {test} failed once and passed once, log: {verdict.outcome.log.parent}")
        for test in sorted(verdict.failed):
            print(f"failed twice: {test}, log: {verdict.outcome.log}")
            print("\n".join(f"  | {line}" for line in verdict.outcome.reasons))
        if verdict.cut and verdict.outcome.code not in (0, STOPPED):
            print(f"failed, no time to repeat it: {verdict.outcome.part.name}")
    words = [verdict.word for verdict in verdicts]
    failed = words.count("FAILED")
    passed = words.count("ok") + words.count("flaky")
    if passed or failed:  # otherwise the closing line of CI's selection stays the last one
        print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0
