"""The verb ``report``: a run on the terminal, as files, and against another run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fullmesh.catalogue import add_verb
from fullmesh.printed import clean_values, measure_width, print_error, print_text
from fullmesh.settings import RUNS

if TYPE_CHECKING:  # rich and jinja2 are slow to import, and other verbs do not need them
    from fullmesh.report.compare import Comparison

OK, PROBLEM, USAGE = 0, 1, 2
PREVIOUS = "previous"


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "report")
    parser.add_argument(
        "run",
        nargs="*",
        help="runs/<time>, a result.json or a support bundle. Of two, the second is shown and compared with the first",
    )
    parser.add_argument(
        "--against",
        nargs="?",
        const=PREVIOUS,
        metavar="OTHER",
        help="compare with another run (default: the previous one)",
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="merge runs of different nodes (--limit) into one result, and show it",
    )
    parser.add_argument(
        "--html", action="store_true", help="write report.html and junit.xml next to the result"
    )
    parser.add_argument(
        "--csv",
        action="store_true",
        help="write links, findings and checks as CSV next to the result",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result and the comparison as JSON"
    )
    parser.set_defaults(func=run_report)


def list_runs() -> list[Path]:
    """List every result under ``runs``, oldest first. Skip ``latest``, which is a link to one of them."""
    found = RUNS.glob("*/result.json")
    return sorted(path for path in found if not path.parent.is_symlink())


def find_result(name: str | None) -> Path | None:
    """Return the result that the user means, or None.

    Raises:
        ValueError: it is a support bundle that cannot be read.
    """
    if name is None:
        runs = list_runs()
        return runs[-1] if runs else None
    path = Path(name)
    if path.suffix == ".zip" and path.is_file():
        return unpack_bundle_results(path)
    path = path / "result.json" if path.is_dir() else path
    return path if path.is_file() else None


def unpack_bundle_results(path: Path) -> Path | None:
    """Unpack the results of a support bundle into a folder next to it, and return the newest one.

    Raises:
        ValueError: the bundle is damaged, or the folder cannot be written.
    """
    from fullmesh.support import archive  # noqa: PLC0415 (see above)

    newest = None
    for run, data in archive.read_bundle_results(path).items():
        newest = path.with_suffix("") / run / "result.json"
        try:
            newest.parent.mkdir(parents=True, exist_ok=True)
            newest.write_bytes(data)
        except OSError as error:
            raise ValueError(f"[CL-114] {newest} cannot be written: {error.strerror}") from None
    return newest


def find_previous_run(path: Path) -> Path | None:
    """Return the run before another one."""
    earlier = [run for run in list_runs() if run.parent.name < path.resolve().parent.name]
    return earlier[-1] if earlier else None


def report_missing_run(where: str) -> int:
    """Report that the run does not exist."""
    print_error(f"fullmesh: [CL-107] No result at {where}. Fix: run ./fullmesh verify first.")
    return USAGE


def report_first_run(path: Path) -> int:
    """Report that there is no earlier run."""
    print_error(
        f"fullmesh: [CL-107] {path.parent.name} is the first run here, so there is none to compare it with. "
        "Fix: run ./fullmesh verify again, or name the other one: --against RUN."
    )
    return USAGE


def compare_result_files(path: Path, other: Path) -> Comparison:
    """Compare two results.

    Raises:
        ValueError: one of them is not a result.
    """
    from fullmesh.report import compare  # noqa: PLC0415 (see above)
    from fullmesh.result import read  # noqa: PLC0415 (see above)

    return compare.compare_results(read.load_result(other), read.load_result(path))


def parse_run_arguments(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the run that the user means, and the one to compare it with.

    Raises:
        ValueError: more than two are named.
    """
    against: str | None = args.against
    if len(args.run) > (2 if against is None else 1):
        raise ValueError(
            "[CL-191] report compares two runs at most. Fix: use report A B, or report B --against A."
        )
    if len(args.run) > 1:
        against = args.run[0]
    return (args.run[-1] if args.run else None), against


def write_merged_run(names: Sequence[str]) -> Path:
    """Merge the results of several runs into one file, and return its path.

    Raises:
        ValueError: a run does not exist or has no result, or the runs are of different clusters.
    """
    from fullmesh.report import write  # noqa: PLC0415 (see above)
    from fullmesh.result import read  # noqa: PLC0415 (see above)
    from fullmesh.verify import merge  # noqa: PLC0415 (see above)

    results = []
    for name in names:
        path = find_result(name)
        if path is None:
            raise ValueError(f"[CL-107] No result at {name}. Fix: run ./fullmesh verify first.")
        results.append(read.load_result(path))
    made = merge.merge_results(results)
    return write.save_result(RUNS, made["run"], json.dumps(made, indent=2) + "\n")


def resolve_runs(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the run that the user means or that merges several, and the one to compare it with.

    Raises:
        ValueError: too few or too many are named, or those that are cannot be merged.
    """
    if not args.merge:
        return parse_run_arguments(args)
    if len(args.run) < 2 or args.against:  # noqa: PLR2004 (one is no part)
        raise ValueError(
            "[CL-191] Merge two runs or more, and compare afterwards: report --merge A B."
        )
    return str(write_merged_run(args.run)), None


def run_report(args: argparse.Namespace) -> int:
    """``fullmesh report``."""
    other = None
    try:
        name, against = resolve_runs(args)
        path = find_result(name)
        if path is None:
            return report_missing_run(name or str(RUNS))
        if against is not None:
            other = find_previous_run(path) if against == PREVIOUS else find_result(against)
    except ValueError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    if against is not None:
        if other is None and against == PREVIOUS:
            return report_first_run(path)
        if other is None:
            return report_missing_run(f"{against} (the run to compare with)")
    return show_run(path, other, args)


def show_run(path: Path, other: Path | None, args: argparse.Namespace) -> int:
    """Show a run, and write the requested files next to it. Return the exit code."""
    from fullmesh.report import compare, terminal, write  # noqa: PLC0415 (see above)
    from fullmesh.result import read  # noqa: PLC0415 (see above)

    found, out = None, sys.stderr if args.json else sys.stdout
    try:
        if args.json:
            result = read.load_result(path)
            code = OK if result["verdict"] == "ok" else PROBLEM
        else:
            code = terminal.print_summary(path)
        if other is not None and code != USAGE:
            found = compare_result_files(path, other)
            if not args.json:
                lines = compare.format_comparison(found, measure_width(sys.stdout))
                print_text("\n".join(["", *lines]))
        if args.json:
            data = {"result": result, "comparison": found and asdict(found)}
            print_text(json.dumps(clean_values(data), indent=2))
        if args.html and code != USAGE:
            for made in write.write_reports_beside(path, found):
                print_text(str(made), out)
        if args.csv and code != USAGE:
            for made in write.write_csv_tables(path):
                print_text(str(made), out)
    except ValueError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    return PROBLEM if code == OK and found is not None and found.worse else code
