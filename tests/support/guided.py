"""Files of others, bent by a fuzzer that sees which lines of our parsers run (atheris, libFuzzer's Python).

``tests/unit/test_fuzz.py`` has the parsers, what each has to keep, and the recorded files to begin from. On demand::

    uv export --quiet --frozen --only-group reliability -o build/reliability.txt
    pip install --require-hashes -r build/reliability.txt
    python tests/support/guided.py --runs 100000            # all parsers, one after the other
    python tests/support/guided.py --runs 100000 NAME ...   # some of them

Ends with a row for each parser, and with 1 where one fell over; the input that did it is printed by libFuzzer.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible.module_utils.fullmesh"
# What libFuzzer says last: how many runs, how many edges and features of them the corpus reaches.
LAST = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)")
LARGEST = 8192  # bytes of an input


def add_import_paths() -> None:
    """Import node modules as on a node, and the tests' own."""
    ansible.module_utils.__path__.append(str(ROOT / "module_utils"))
    sys.path[:0] = [str(ROOT / "tests/unit"), str(ROOT / "src")]


def list_parsers() -> list[str]:
    """The parsers of test_fuzz.py; no coverage is wanted for that."""
    add_import_paths()
    from test_fuzz import PARSERS  # noqa: PLC0415 (only once the paths are there)

    return list(PARSERS)


def fuzz_parser(name: str, corpus: Path, runs: int, seed: int) -> None:
    """Fuzz one parser in this process; libFuzzer ends it."""
    import atheris  # noqa: PLC0415 (only who fuzzes has it)

    add_import_paths()
    with atheris.instrument_imports(include=[PACKAGE]):
        from test_fuzz import PARSERS, WORDS  # noqa: PLC0415 (only once the paths are there)
    samples, check = PARSERS[name]
    for number, text in enumerate(samples):
        (corpus / f"recorded-{number}").write_bytes(text.encode("utf-8", "surrogateescape"))
    escaped = [
        "".join(f"\\x{byte:02x}" for byte in word.encode("utf-8", "surrogateescape"))
        for word in WORDS
    ]
    words = corpus.parent / "words"
    words.write_text("".join(f'"{one}"\n' for one in escaped))

    def one(data: bytes) -> None:
        check(data.decode("utf-8", "surrogateescape"))

    options = [f"-runs={runs}", f"-seed={seed}", f"-dict={words}", f"-max_len={LARGEST}"]
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=1", str(corpus)], one)
    atheris.Fuzz()


def fuzz_all_parsers(chosen: list[str], runs: int, seed: int) -> int:
    """One process for each parser; a row for each."""
    failed = 0
    print(f"{'parser':<72} {'runs':>8} {'edges':>6} {'inputs':>6} {'s':>5}")  # noqa: T201 (its output)
    for name in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus"
            corpus.mkdir()
            words = ["--one", name, "--corpus", str(corpus)]
            words += ["--runs", str(runs), "--seed", str(seed)]
            done = subprocess.run(
                [sys.executable, __file__, *words],
                cwd=folder,
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
            )
        count, edges, _features, inputs = (LAST.findall(done.stderr) or [("0", "0", "0", "0")])[-1]
        seconds = time.monotonic() - begun
        print(f"{name:<72} {count:>8} {edges:>6} {inputs:>6} {seconds:>5.0f}", flush=True)  # noqa: T201
        if done.returncode:
            failed += 1
            print(done.stdout[-1500:], done.stderr[-3000:], sep="\n", flush=True)  # noqa: T201
    return 1 if failed else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parsers", nargs="*", help="names in tests/unit/test_fuzz.py; all")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs a parser (100000)")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer (1)")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        fuzz_parser(args.one, args.corpus, args.runs, args.seed)
        return 0
    known = list_parsers()
    for one in args.parsers:
        if one not in known:
            parser.error(f"no parser is called {one}; there are {', '.join(known)}")
    return fuzz_all_parsers(args.parsers or known, args.runs, args.seed)


if __name__ == "__main__":
    sys.exit(main())
