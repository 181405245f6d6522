"""Mutate code that can lose data, and check that a unit test notices (cosmic-ray's operators).

Run on demand::

    uv export --quiet --frozen --only-group reliability -o build/reliability.txt
    pip install --require-hashes -r build/reliability.txt
    python tests/support/mutants.py                        # a hundred of each module, drawn by --seed
    python tests/support/mutants.py --count 0 hosts_file   # every mutant of one

Prints the diff of each mutant that survives, and a row for each module. A survivor means a
missing test, or a change without effect: inspect it to find out which. cosmic-ray's own runner would
break the files of this checkout in place and start Python for each mutant. Here each mutant is a child
of a process that already has the imports, and it works on a copy.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UTILS = "module_utils/fullmesh"
# Modules that can lose a node's data, and their unit tests.
MODULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "engine": (f"{UTILS}/transaction/engine.py", ("rollback", "test_pending_change.py")),
    "undo": (f"{UTILS}/state/undo.py", ("undo_point", "test_undo_record.py")),
    "record": (f"{UTILS}/state/record.py", ("test_undo_record.py", "undo_point")),
    "restore": (f"{UTILS}/state/restore.py", ("undo_point", "test_undo_record.py")),
    "files": (f"{UTILS}/files.py", ("test_files.py", "test_line_ends.py")),
    "hosts_file": (f"{UTILS}/hosts_file.py", ("test_name_resolution.py", "test_line_ends.py")),
    "netplan": (f"{UTILS}/network/backends/netplan.py", ("backends",)),
    "ifupdown": (f"{UTILS}/network/backends/ifupdown.py", ("backends",)),
    "networkmanager": (f"{UTILS}/network/backends/networkmanager.py", ("backends",)),
    "preserve": (f"{UTILS}/firewall/preserve.py", ("test_firewall_keep.py",)),
}
# One replacement for each operator. With all of them, most mutants would be of the same few lines.
OPERATORS = (
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "NumberReplacer", "ZeroIterationForLoop"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ExceptionReplacer"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ReplaceUnaryOperator_Delete_Not"),
    *(f"ReplaceComparisonOperator_{one}" for one in ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt")),
    *(f"ReplaceComparisonOperator_{one}" for one in ("Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceBinaryOperator_{one}" for one in ("Add_Sub", "Sub_Add", "Mul_Div", "BitAnd_BitOr")),
)
# Multiples of the tests' time without a mutant. An endless loop counts as noticed.
PATIENCE, LEAST_SECONDS = 5.0, 60.0


@dataclass(frozen=True)
class Mutant:
    """One change of a module: the operator, its place, and the resulting text."""

    operator: str
    occurrence: int
    text: str


def list_mutants(source: str) -> Iterator[Mutant]:
    """List every mutant of a module."""
    from cosmic_ray import ast, mutating, plugins  # noqa: PLC0415 (only installed for mutants)

    for name in OPERATORS:
        try:
            operator = plugins.get_operator(f"core/{name}")()
        except KeyError:
            continue
        places = sum(
            len(list(operator.mutation_positions(node)))
            for node in ast.ast_nodes(ast.get_ast(source))
        )
        for number in range(places):
            text = mutating.mutate_code(source, operator, number)
            if text and text != source and not is_only_for_types(source, text):
                yield Mutant(name, number, text)


def is_only_for_types(source: str, text: str) -> bool:
    """Return whether only mypy reads the changed code, so that no test can notice."""
    lines = zip(source.splitlines(), text.splitlines(), strict=False)
    first = next((old for old, new in lines if old != new), "")
    return "TYPE_CHECKING" in first or "(TypedDict" in first


def copy_tree(folder: Path) -> Path:
    """Copy the tree without the lab's big data, to break the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for path in listed:
        if (ROOT / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
    return folder


def run_mutant_tests(tree: Path, tests: tuple[str, ...], seconds: float) -> bool:
    """Run the tests in a child. Return whether all of them passed in time."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.setsid()
            os.chdir(tree)
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            sys.dont_write_bytecode = True
            import pytest  # noqa: PLC0415 (already imported by main)

            words = ["-x", "-q", "-p", "no:cacheprovider", *(f"tests/unit/{one}" for one in tests)]
            os._exit(int(pytest.main(words)))
        os._exit(3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def format_mutant(source: str, mutant: Mutant, path: str) -> str:
    """Return a surviving mutant as a diff of one line."""
    lines = difflib.unified_diff(
        source.splitlines(), mutant.text.splitlines(), path, mutant.operator, lineterm="", n=0
    )
    return "\n".join("    " + line for line in list(lines)[2:])


def judge_module(name: str, chosen: list[Mutant], jobs: int) -> tuple[int, list[Mutant]]:
    """Try the mutants of a module, *jobs* at a time. Return their number and the survivors."""
    path, tests = MODULES[name]
    with contextlib.ExitStack() as stack:
        trees = [
            copy_tree(Path(stack.enter_context(tempfile.TemporaryDirectory()))) for _ in range(jobs)
        ]
        begun = time.monotonic()
        if not run_mutant_tests(trees[0], tests, 1800):
            raise SystemExit(f"{name}: the tests fail without a mutant")
        seconds = max(PATIENCE * (time.monotonic() - begun), LEAST_SECONDS)

        def one(at: int) -> list[Mutant]:
            left = []
            for mutant in chosen[at::jobs]:
                (trees[at] / path).write_text(mutant.text)
                if run_mutant_tests(trees[at], tests, seconds):
                    left.append(mutant)
                    # a run of an hour that is stopped early has printed its survivors
                    print(format_mutant((ROOT / path).read_text(), mutant, path), flush=True)  # noqa: T201
            return left

        with ThreadPoolExecutor(jobs) as pool:
            survived = [mutant for left in pool.map(one, range(jobs)) for mutant in left]
    return len(chosen), survived


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(MODULES)}; all")
    parser.add_argument("--count", type=int, default=100, help="a module (100); 0: every one")
    parser.add_argument("--seed", type=int, default=1, help="which of them (1)")
    parser.add_argument("--jobs", type=int, default=2, help="side by side (2)")
    args = parser.parse_args()
    for one in args.modules:
        if one not in MODULES:
            parser.error(f"there is no module {one}")
    import pytest  # noqa: F401, PLC0415 (the children inherit it)

    for name in args.modules or MODULES:
        path = MODULES[name][0]
        source = (ROOT / path).read_text()
        every = list(list_mutants(source))
        chance = random.Random(args.seed)  # noqa: S311 (repeatable on purpose)
        few = min(args.count or len(every), len(every))
        begun = time.monotonic()
        tried_, survived = judge_module(name, chance.sample(every, few), args.jobs)
        share = 100 * (tried_ - len(survived)) / max(tried_, 1)
        print(  # noqa: T201 (output)
            f"{name}: {tried_} of {len(every)} mutants, {tried_ - len(survived)} seen ({share:.0f} %),"
            f" {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
