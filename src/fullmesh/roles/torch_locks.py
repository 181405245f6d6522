"""Create locks of torch with uv, each for all Pythons and machines that have wheels (``fullmesh torch-lock``).

A node may be a DGX Spark with Python 3.12 on aarch64, and the next one an EL 9 box with 3.11 on x86-64. uv resolves
for all of them at once. Lines that differ have a marker (PEP 508). pip reads it on the node. When the wheels are
downloaded, the role evaluates it, because pip download uses the Python that runs it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from fullmesh.catalogue import add_verb
from fullmesh.observed.wheel_locks import filter_lock_lines, is_marker_met, parse_logical_lines
from fullmesh.printed import print_error, print_text
from fullmesh.roles import torch_runtime
from fullmesh.settings import ROOT

FILES = ROOT / "roles/torch_runtime/files"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
# torch, accelerator: builds on PyPI itself. PyTorch's own index has more.
COMMITTED = (
    ("2.13.0", "cuda13.0"),  # the default of the role and of the command line
    ("2.15.0", "cuda13.2"),
    ("2.14.1", "cuda13.0"),
    ("2.10.0", "cuda12.8"),
    ("2.7.1", "cuda12.6"),
)
# Packages that every training script needs. With pip, nodes need no ensurepip.
COMPANIONS = ("numpy", "pip")
SECONDS = 600.0
GLIBC = "manylinux_2_28"
Target = tuple[str, str]


class TorchLockError(Exception):
    """uv failed. The message is uv's."""


def run_uv(*words: str, cwd: Path | None = None) -> str:
    """Run uv, which must not download its own Python, and return its standard output."""
    # Also search next to this interpreter: its virtual environment may not be activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = dict(os.environ, UV_PYTHON_DOWNLOADS="never", PATH=path)
    try:
        done = subprocess.run(
            ["uv", *words],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except FileNotFoundError:
        raise TorchLockError("uv is not installed (pip install uv)") from None
    except subprocess.TimeoutExpired:
        raise TorchLockError(f"uv took longer than {SECONDS:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise TorchLockError(" | ".join(lines[-6:]))
    return done.stdout


def build_index_options(index: str) -> list[str]:
    """Return uv's options for an additional index."""
    return ["--extra-index-url", index, "--index-strategy", "unsafe-best-match"] if index else []


def resolve_requirements(wanted: Sequence[str], index: str) -> str:
    """Resolve for Linux, starting at the oldest Python that works, because new torch releases drop old Pythons."""
    for python in PYTHONS[:-1]:
        try:
            return resolve_from_python(wanted, index, python)
        except TorchLockError as error:
            if "does not satisfy Python" not in str(error):
                raise
    return resolve_from_python(wanted, index, PYTHONS[-1])


def resolve_from_python(wanted: Sequence[str], index: str, python: str) -> str:
    """Run uv's universal resolution from *python* on, for Linux, with the hashes of every file."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "\n".join(f"{one} ; sys_platform == 'linux'" for one in wanted)
        (Path(folder) / "torch.in").write_text(lines + "\n")
        return run_uv(
            *("pip", "compile", "torch.in", "--universal", "--generate-hashes", "--quiet"),
            *("--python-version", python, "--no-annotate", "--no-header"),
            *build_index_options(index),
            cwd=Path(folder),
        )


def find_marker_targets(marker: str, served: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the Pythons and served machines of a marker if it covers all their pairs, else None."""
    meant = {one for one in itertools.product(PYTHONS, served) if is_marker_met(marker, *one)}
    pythons = [p for p in PYTHONS if any(p == one[0] for one in meant)]
    machines = [m for m in served if any(m == one[1] for one in meant)]
    whole = set(itertools.product(pythons, machines)) == meant
    start = PYTHONS.index(pythons[0]) if pythons else 0
    together = pythons == list(PYTHONS[start : start + len(pythons)])
    return (pythons, machines) if whole and together else None


def shorten_marker(marker: str, served: Sequence[str]) -> str | None:
    """Reduce a marker to the supported targets, because uv's covers every system. None: no target needs the line."""
    found = find_marker_targets(marker, served)
    if found is None:
        return marker
    pythons, machines = found
    if not pythons:
        return None
    words = []
    if len(pythons) == 1:
        words.append(f"python_version == '{pythons[0]}'")
    else:
        if pythons[0] != PYTHONS[0]:
            words.append(f"python_version >= '{pythons[0]}'")
        if pythons[-1] != PYTHONS[-1]:
            words.append(f"python_version <= '{pythons[-1]}'")
    if len(machines) < len(served):
        words.append(f"platform_machine == '{machines[0]}'")
    return " and ".join(words)


def render_lock_entries(text: str, served: Sequence[str] = MACHINES) -> str:
    """Render one line for each package, with a short marker and all hashes, so that a diff shows packages."""
    found = []
    for line in parse_logical_lines(text):
        pin, *hashes = line.split(" --hash=")
        name, _, marker = (part.strip() for part in pin.partition(";"))
        kept = shorten_marker(marker, served)
        if kept is not None:
            head = f"{name} ; {kept}" if kept else name
            found.append(" --hash=".join([head, *(one.strip() for one in hashes)]))
    return "\n".join(found)


def can_install_lock(lock: Path, target: Target, index: str) -> bool:
    """Return whether uv finds a wheel for every line, without downloading them."""
    python, machine = target
    try:
        run_uv(
            *("pip", "install", "--dry-run", "--quiet", "--target", str(lock.parent / "nowhere")),
            *("--python-version", python, "--python-platform", f"{machine}-{GLIBC}"),
            *("--only-binary", ":all:", "--require-hashes", "-r", str(lock)),
            *build_index_options(index),
        )
    except TorchLockError:
        return False
    return True


def find_target_accelerator(text: str, target: Target) -> str:
    """Return the accelerator of torch on a target: from the CUDA runtime in the lock, or ``cpu``."""
    for line in filter_lock_lines(text, *target):
        name, _, version = line.split(" ")[0].partition("==")
        if name.startswith("nvidia-cuda-runtime"):
            return "cuda" + ".".join(version.split(".")[:2])
    return "cpu"


def limit_companions(torch: str, more: Sequence[str]) -> list[str]:
    """Limit the companion packages to the torch version. torchvision pins its torch, torchaudio does not.

    Its number was torch's own up to its last release (2.11), which uses torch's stable interface and works with later
    ones.
    """
    number = torch.partition("+")[0]
    return [f"torchaudio<={number}" if one == "torchaudio" else one for one in more]


def build_torch_lock(
    torch: str, accelerator: str, index: str = "", more: Sequence[str] = ()
) -> str:
    """Create a whole lock, with the line that lists its targets.

    Args:
        torch: its version, a local one (``2.13.0+cu126``) if the index has it.
        accelerator: ``cpu``, ``cuda12.8``, ``rocm6.4``. Machines whose torch is built for another accelerator are left
            out (PyPI's torch 2.10 on aarch64 is for CPUs).
        index: an additional index.
        more: additional packages.

    Raises:
        TorchLockError: nothing can be resolved, or no Python and machine has wheels for all of it.
    """
    try:
        kind, number = torch_runtime.parse_accelerator(accelerator)
    except ValueError:
        raise TorchLockError("the accelerator is unknown. Write cpu, cuda13.0 or rocm6.4") from None
    text = resolve_requirements(
        [f"torch=={torch}", *COMPANIONS, *limit_companions(torch, more)], index
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "torch.txt"
        path.write_text(render_lock_entries(text) + "\n")
        served = [
            target
            for target in itertools.product(PYTHONS, MACHINES)
            # no other package shows the ROCm version of torch
            if (kind == "rocm" or find_target_accelerator(text, target).startswith(kind + number))
            and can_install_lock(path, target, index)
        ]
    machines = [m for m in MACHINES if any(m == one[1] for one in served)]
    pythons = [p for p in PYTHONS if machines and all((p, m) in served for m in machines)]
    if not pythons:
        builds = {find_target_accelerator(text, t) for t in itertools.product(PYTHONS, MACHINES)}
        raise TorchLockError(
            f"no Python of {', '.join(PYTHONS)} has wheels for all packages for {accelerator}. "
            f"This torch is built for {', '.join(sorted(builds))}"
        )
    head = [
        f"# torch {torch} for {accelerator}, resolved by uv with the hashes of every file of these versions.",
        f"# serves: CPython {', '.join(pythons)} on {', '.join(machines)}",
        "# ./fullmesh torch-lock makes and renews it.",
    ]
    return "\n".join([*head, render_lock_entries(text, machines), ""])


def list_committed_locks() -> Iterator[tuple[str, str, tuple[str, ...], Path]]:
    """List torch, accelerator, additional packages, and the path of each lock of the role."""
    for (torch, accelerator), domain in itertools.product(COMMITTED, (False, True)):
        folder = Path(torch_runtime.choose_lock_folder(str(FILES), domain=domain))
        more = torch_runtime.COMPANIONS if domain else ()
        yield torch, accelerator, more, folder / f"torch-{torch}-{accelerator}.txt"


def run_torch_lock(args: argparse.Namespace) -> int:
    """Write one lock, or update the role's locks."""
    own = ((args.torch, args.accelerator, tuple(args.with_packages), Path(args.output)),)
    for torch, accelerator, more, path in list_committed_locks() if args.committed else own:
        try:
            text = build_torch_lock(torch, accelerator, args.index, more)
        except TorchLockError as error:
            print_error(f"fullmesh: [CL-115] No lock of torch {torch} for {accelerator}: {error}")
            return 1
        path.write_text(text)
        print_text(f"{path}: {text.splitlines()[1].removeprefix('# ')}")
    if not args.committed:
        print_text(f"set torch_runtime_requirements: {Path(args.output).resolve()}")
        print_text(f"and torch_runtime_accelerator: {args.accelerator}, or leave it to auto")
    return 0


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``torch-lock``."""
    parser = add_verb(verbs, "torch-lock")
    parser.add_argument("--torch", default=COMMITTED[0][0], help="version (default %(default)s)")
    parser.add_argument(
        "--accelerator",
        default="cuda13.0",
        help="such as cpu, cuda12.8 or rocm6.4 (default %(default)s)",
    )
    parser.add_argument("--index", default="", help="URL of an additional package index")
    parser.add_argument(
        "--with",
        dest="with_packages",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package to lock as well, such as torchvision",
    )
    parser.add_argument(
        "-o", "--output", default="torch.txt", help="file to write (default %(default)s)"
    )
    parser.add_argument(
        "--committed",
        action="store_true",
        help="update the locks that the role torch_runtime contains",
    )
    parser.set_defaults(func=run_torch_lock)
