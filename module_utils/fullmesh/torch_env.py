# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Build torch's environment on a node from locked wheels, verify it, then switch to it. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from typing import TYPE_CHECKING, Literal, TypedDict

from .account import find_foreign_folder
from .answer import make_diff
from .files import hash_file
from .foreign_text import parse_foreign_json
from .schema.torch import VenvSeen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .answer import Diff
    from .schema.torch import PythonSeen, TorchVersions

SCHEMA = "1"
# Packages that are built for one version of torch, if they are in the lock.
BESIDE = ("torchvision", "torchaudio")
OWN_PIP = re.compile(r"^pip==", re.MULTILINE)
MARKER = "fullmesh.json"
LOCK_POLL_SECONDS = 0.5
LOOK = r"""
import json, os, platform, sys
libc = os.confstr("CS_GNU_LIBC_VERSION").split()[-1].split(".")
said = {"python": "%d.%d" % sys.version_info[:2], "glibc": [int(n) for n in libc[:2]]}
said["machine"] = platform.machine()
said["missing"] = []
for name in ("venv", "ensurepip"):
    try:
        __import__(name)
    except ImportError:
        said["missing"].append(name)
print(json.dumps(said))
"""
PROBE = r"""
import glob, json, os, platform, sys
import torch, torch.distributed
here = os.path.dirname(os.path.dirname(torch.__file__))
libs = sorted(glob.glob(os.path.join(here, "nvidia", "nccl", "lib", "libnccl.so*")))
said = {"torch": torch.__version__, "python": platform.python_version(), "cuda": torch.version.cuda or ""}
said["rocm"] = getattr(torch.version, "hip", None) or ""
said["gloo"] = bool(torch.distributed.is_available() and torch.distributed.is_gloo_available())
said["nccl"] = ""
if torch.distributed.is_nccl_available():
    said["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
said["nccl_library"] = libs[0] if libs else ""
try:
    import torch._dynamo  # what DDP imports: 818 modules, which accounts without rights could compile again each time
except ImportError:
    pass
sys.stdout.write("\n" + json.dumps(said) + "\n")
"""


class TorchVenvParams(TypedDict):
    """The parameters of torch_venv. The module documents them."""

    state: str
    path: str
    store: str
    wheels: str
    python: str
    requirements: str
    torch_version: str
    accelerator: str
    bundle: str
    expected: dict[str, str]
    keep_wheels: bool
    seconds: int


class BuildMarker(TypedDict):
    """The file that a finished build writes last."""

    digest: str
    versions: TorchVersions


class VenvError(Exception):
    """A coded sentence for the user."""


def run_isolated(argv: list[str], seconds: int, temporary: str = "") -> tuple[int, str]:
    """Run a command without the user's Python or pip settings.

    Return both outputs in one text.

    ``--isolated`` still reads the machine's pip.conf, whose constraints could contradict the lock. pip reads no file if
    PIP_CONFIG_FILE is the null device (pip's user guide, "Configuration").
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    clean["PIP_CONFIG_FILE"] = os.devnull
    if temporary:
        clean["TMPDIR"] = temporary
    try:
        done = subprocess.run(
            argv,
            check=False,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no end after {seconds} s"
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def parse_last_json(text: str) -> dict[str, Any]:
    """Return the last line that is a JSON object. Libraries print warnings before it."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            answer = parse_foreign_json(line)
            if isinstance(answer, dict):
                return answer
    raise ValueError("no answer")


def inspect_python(path: str, own_pip: bool) -> PythonSeen:
    """Return the interpreter's version, and whether it can make environments.

    Only a lock without pip needs ensurepip, which Debian and Ubuntu have in a separate package.
    """
    rc, text = run_isolated([path, "-I", "-c", LOOK], 60)
    try:
        said = parse_last_json(text)
    except ValueError:
        words = text.strip().splitlines() or [f"rc {rc}"]
        return {
            "python": "",
            "machine": "",
            "glibc": [0, 0],
            "fault": f"[TR-103] {path} cannot be used: {words[-1]}. "
            "Fix: set torch_runtime_python to a Python that the lock has wheels for, or torch_runtime_packages.",
        }
    fault = ""
    missing = [name for name in said["missing"] if not (own_pip and name == "ensurepip")]
    if missing:
        fault = (
            f"[TR-104] {path} cannot make virtual environments: it has no {' and no '.join(missing)}. "
            "Fix: add its package to torch_runtime_packages, such as python3.12-venv, "
            "or add pip to the lock."
        )
    return {
        "python": "" if fault else said["python"],
        "machine": said["machine"],
        "glibc": said["glibc"],
        "fault": fault,
    }


def measure_store_space(path: str) -> int:
    """Return the free space at the first existing directory above *path*."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


def read_build_marker(folder: str) -> BuildMarker | None:
    """Return the marker of a finished build, or None if it never finished."""
    try:
        with open(os.path.join(folder, MARKER)) as stream:
            found = parse_foreign_json(stream.read())
    except (OSError, ValueError):
        return None
    usable = os.access(os.path.join(folder, "bin", "python"), os.X_OK)
    if not usable or not isinstance(found, dict):
        return None
    return {"digest": found.get("digest", ""), "versions": found.get("versions", {})}


def read_venv_link(params: TorchVenvParams) -> str:
    """Return the link's target. Refuses links and files that are not Fullmesh's."""
    path = params["path"]
    if not os.path.lexists(path):
        return ""
    target = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else ""
    if os.path.dirname(target) != params["store"]:
        raise VenvError(
            f"[TR-110] {path} exists and is not a link into {params['store']}. "
            "Fix: move it away, or set torch_runtime_path to another place."
        )
    return target


def refuse_foreign_folder(path: str) -> None:
    """Refuse a folder in which other accounts could replace the environment's programs that root runs."""
    folder = find_foreign_folder(os.path.dirname(path)) if os.geteuid() == 0 else ""
    if folder:
        raise VenvError(
            f"[TR-115] Other accounts than root can change {folder}, so root cannot run programs from {path}. "
            f"Fix: chown root:root {folder} && chmod go-w {folder}, or set torch_runtime_path to another place."
        )


@contextlib.contextmanager
def lock_store(params: TorchVenvParams, create: bool = False) -> Iterator[None]:
    """Hold the lock of the environments, so that two runs never change them at the same time.

    A node finishes a build even if its controller was killed, and then removes the wheels. The lock makes the next run
    wait for that.
    """
    handle = lock_folder(params["store"], params["seconds"], create)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def lock_folder(folder: str, seconds: int, create: bool) -> int | None:
    """Lock *folder* (flock(2), without a file of its own). Return its descriptor, or None if it does not exist.

    Raises:
        VenvError: another process still holds the lock after *seconds*.
    """
    end = time.monotonic() + seconds
    while create or os.path.isdir(folder):
        if create:
            os.makedirs(folder, exist_ok=True)
        handle = open_folder_locked(folder)
        if handle is not None:
            return handle
        if time.monotonic() > end:
            raise VenvError(
                f"[TR-116] Another run still works on {folder} after {seconds} s. "
                f"Check: fuser -v {folder} on the node. Run again after that process has ended."
            )
        time.sleep(LOCK_POLL_SECONDS)
    return None


def open_folder_locked(folder: str) -> int | None:
    """Open and lock *folder*. Return None if another process holds it, or has just removed or replaced it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(folder)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


def observe_torch_venv(params: TorchVenvParams) -> VenvSeen:
    """Return everything that the controller needs to know, after the build of an earlier run has ended."""
    with lock_store(params):
        return observe_locked_venv(params)


def observe_locked_venv(params: TorchVenvParams) -> VenvSeen:
    """Read the interpreter, the environments and the wheels."""
    refuse_foreign_folder(params["path"])
    seen = inspect_python(params["python"], bool(OWN_PIP.search(params["requirements"])))
    parts = [SCHEMA, params["requirements"], params["python"], seen["python"], seen["machine"]]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder = os.path.join(params["store"], digest)
    marker = read_build_marker(folder) if seen["python"] else None
    current = read_venv_link(params)
    return {
        **seen,
        "digest": digest,
        "folder": folder,
        "needed": not marker,
        "linked": bool(marker) and current == folder,
        "current": current,
        "versions": marker["versions"] if marker else {},
        "store": params["store"],
        "free_bytes": measure_store_space(params["store"]),
        "have": [] if marker else hash_kept_wheels(params["wheels"]),
        "bundles": {} if marker else list_kept_bundles(params["wheels"]),
    }


def hash_kept_wheels(folder: str) -> list[str]:
    """Return the checksums of the wheels that an earlier run kept."""
    if not os.path.isdir(folder):
        return []
    names = sorted(name for name in os.listdir(folder) if name.endswith(".whl"))
    return [hash_file(os.path.join(folder, name)) for name in names]


def list_kept_bundles(folder: str) -> dict[str, int]:
    """Return complete bundles that an interrupted run left, with their sizes.

    Such a node can send them to others.
    """
    if not os.path.isdir(folder):
        return {}
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(".tar")]
    return {name: os.path.getsize(os.path.join(folder, name)) for name in names}


def unpack_wheels(params: TorchVenvParams) -> None:
    """Unpack the bundle's wheels and verify each one."""
    folder = params["wheels"]
    os.makedirs(folder, exist_ok=True)
    if params["bundle"]:
        with tarfile.open(params["bundle"]) as tar:
            for member in tar.getmembers():
                # Only plain files with a wheel's name and no path: nothing can land elsewhere.
                if member.isfile() and os.path.basename(member.name) in params["expected"]:
                    member.name = os.path.basename(member.name)
                    tar.extract(member, folder)
    for name, wanted in params["expected"].items():
        path = os.path.join(folder, name)
        found = hash_file(path) if os.path.isfile(path) else "nothing"
        if found != wanted:
            if os.path.isfile(path):
                os.unlink(path)
            raise VenvError(
                f"[TR-107] {name} arrived damaged: SHA-256 {found}, expected {wanted}. "
                "Fix: run again. If it is damaged again, check the disk and the memory of this node."
            )


def install_wheels(params: TorchVenvParams, folder: str) -> None:
    """Create the environment at its final place (its scripts hold that path) and fill it offline.

    --no-compile: compiling all modules takes longer than the installation. The import that verifies the result runs as
    root and compiles the modules that jobs import.
    """
    wheels = [name for name in params["expected"] if name.startswith("pip-")]
    without = ["--without-pip"] if wheels else []
    rc, text = run_isolated(
        [params["python"], "-I", "-m", "venv", *without, folder], params["seconds"]
    )
    if rc:
        raise VenvError(
            f"[TR-104] python -m venv failed: {format_output_tail(text)}. Check: torch_runtime_packages."
        )
    lock = os.path.join(folder, "requirements.txt")
    with open(lock, "w") as stream:
        stream.write(params["requirements"])
    python = os.path.join(folder, "bin", "python")
    # A wheel of pip runs as it is: Python takes a path inside a zip file.
    first = [os.path.join(params["wheels"], wheels[0], "pip")] if wheels else ["-m", "pip"]
    options = ["--quiet", "--no-index", "--find-links", params["wheels"], "--require-hashes"]
    options += ["--no-deps", "--no-compile", "--no-cache-dir", "--only-binary", ":all:"]
    steps = {
        "install": [*first, "install", *options, "--requirement", lock],
        "check": ["-m", "pip", "check"],
    }
    for step, argv in steps.items():
        quiet = ["--isolated", "--disable-pip-version-check"]
        rc, text = run_isolated([python, "-I", *argv, *quiet], params["seconds"])
        if rc:
            raise VenvError(
                f"[TR-108] pip {step} failed on this node: {format_output_tail(text)}. Nothing was changed. "
                "Fix: complete the lock (pip-compile --generate-hashes), then run again."
            )


def format_output_tail(text: str) -> str:
    """Return the end of a program's output."""
    return (
        " | ".join([line for line in text.splitlines() if line.strip()][-3:]).rstrip(".")
        or "no output"
    )


def check_torch_import(folder: str, wanted: str, seconds: int) -> TorchVersions:
    """Import torch in the new environment and compare its versions with the wanted ones."""
    # torch._dynamo uses TMPDIR/torchinductor_USER at import, even if others made it, and leaves it behind
    with tempfile.TemporaryDirectory(prefix="fullmesh-torch-") as own:
        rc, text = run_isolated(
            [os.path.join(folder, "bin", "python"), "-I", "-c", PROBE], seconds, own
        )
    try:
        said = parse_last_json(text)
    except ValueError:
        raise VenvError(
            f"[TR-109] torch cannot be imported (rc {rc}): {format_output_tail(text)}. "
            "The current environment was kept. Fix: use wheels that fit this machine."
        ) from None
    if wanted and wanted not in (said["torch"], said["torch"].split("+")[0]):
        raise VenvError(
            f"[TR-109] The environment has torch {said['torch']}, but {wanted} was requested. Nothing was changed."
        )
    return {
        "torch": said["torch"],
        "python": said["python"],
        "cuda": said["cuda"],
        "rocm": said["rocm"],
        "gloo": said["gloo"],
        "nccl": said["nccl"],
        "nccl_library": said["nccl_library"],
    }


def check_companion_imports(folder: str, requirements: str, seconds: int) -> None:
    """Import torch's companion packages. A build for another torch fails here."""
    for name in BESIDE:
        if not re.search(rf"^{name}==", requirements, re.MULTILINE):
            continue
        with tempfile.TemporaryDirectory(prefix="fullmesh-torch-") as own:
            argv = [os.path.join(folder, "bin", "python"), "-I", "-c", f"import {name}"]
            rc, text = run_isolated(argv, seconds, own)
        if rc:
            raise VenvError(
                f"[TR-109] {name} cannot be imported (rc {rc}): {format_output_tail(text)}. "
                "The current environment was kept. Fix: use a build for this torch."
            )


def check_accelerator(said: TorchVersions, wanted: str) -> None:
    """Refuse a torch for another accelerator. It could be imported, but would find no GPU in any job."""
    kind: Literal["rocm", "cuda"] = "rocm" if wanted.startswith("rocm") else "cuda"
    if not wanted.startswith(("cuda", "cu1", "rocm")):
        return  # cpu: every build of torch computes on a CPU
    number = wanted[len(kind) :] if wanted.startswith(kind) else f"{wanted[2:-1]}.{wanted[-1]}"
    if not said[kind] or (number and not (said[kind] + ".").startswith(number + ".")):
        found = said[kind] and f"{kind} {said[kind]}"
        raise VenvError(
            f"[TR-113] torch {said['torch']} is built for {found or 'no ' + kind}, but {wanted} was requested. "
            "The current environment was kept. Fix: correct torch_runtime_index and torch_runtime_requirements."
        )


def build_venv(params: TorchVenvParams, seen: VenvSeen) -> TorchVersions:
    """Build at the final place. The link does not point there until the marker is written."""
    folder = seen["folder"]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(params["store"], exist_ok=True)
    try:
        unpack_wheels(params)
        install_wheels(params, folder)
        versions = check_torch_import(folder, params["torch_version"], params["seconds"])
        check_accelerator(versions, params["accelerator"])
        check_companion_imports(folder, params["requirements"], params["seconds"])
        marker: BuildMarker = {"digest": seen["digest"], "versions": versions}
        with open(os.path.join(folder, MARKER), "w") as stream:
            json.dump(marker, stream, indent=1, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        clear_wheels(params)
        raise
    return versions


def switch_venv_link(params: TorchVenvParams, seen: VenvSeen) -> None:
    """Point the link to the new environment in one step. Keep the previous one for running jobs."""
    aside = tempfile.mktemp(prefix=".venv-", dir=os.path.dirname(params["path"]))  # noqa: S306 (a link cannot be made over an existing name)
    os.symlink(seen["folder"], aside)
    os.replace(aside, params["path"])
    keep = {os.path.basename(seen["folder"]), os.path.basename(seen["current"])}
    for name in os.listdir(params["store"]):
        if name not in keep:
            shutil.rmtree(os.path.join(params["store"], name), ignore_errors=True)


def clear_wheels(params: TorchVenvParams) -> None:
    """Remove the bundle, and the wheels unless they are to be kept."""
    if os.path.isdir(params["wheels"]):
        for name in os.listdir(params["wheels"]):
            if not name.endswith(".whl"):  # bundles that an interrupted transfer left
                os.unlink(os.path.join(params["wheels"], name))
    if not params["keep_wheels"]:
        shutil.rmtree(params["wheels"], ignore_errors=True)


class TorchVenvResult(VenvSeen):
    """The state after the build, and whether it changed."""

    changed: bool
    diff: Diff


def ensure_torch_venv(params: TorchVenvParams, check: bool) -> TorchVenvResult:
    """Build the missing environment and switch to it."""
    with lock_store(params, create=not check):
        return ensure_locked_venv(params, check)


def remove_torch_venv(params: TorchVenvParams, check: bool) -> bool:
    """Remove the environments and the wheels. Return whether there were any."""
    with lock_store(params):
        found = [
            folder for folder in (params["store"], params["wheels"]) if os.path.lexists(folder)
        ]
        for folder in found if not check else []:
            os.unlink(folder) if os.path.islink(folder) else shutil.rmtree(folder)
    return bool(found)


def ensure_locked_venv(params: TorchVenvParams, check: bool) -> TorchVenvResult:
    """Build and switch while this process holds the lock."""
    seen = observe_locked_venv(params)
    if seen["fault"] and not check:
        raise VenvError(seen["fault"])
    changed = seen["needed"] or not seen["linked"]
    if changed and not check:
        if seen["needed"]:
            seen["versions"] = build_venv(params, seen)
        switch_venv_link(params, seen)
        clear_wheels(params)
    pair = (seen["current"], seen["folder"] if changed else seen["current"])
    before, after = (target + "\n" if target else "" for target in pair)
    return {**seen, "changed": changed, "diff": make_diff(params["path"], before, after)}
