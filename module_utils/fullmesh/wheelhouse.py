# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Download hash-pinned wheels for another Python once, and bundle them. Runs on the controller."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from typing import TYPE_CHECKING, TypedDict

from .files import hash_file
from .schema import wheel_locks

if TYPE_CHECKING:
    from typing import IO

    from .schema.torch import BundlePieces, WheelhouseResult

# Small enough that a node passes on the first piece early, large enough that asking for it costs nothing.
PIECE = 4 << 20


class WheelhouseParams(TypedDict):
    """The parameters of wheelhouse. The module documents them."""

    requirements: str
    key: str
    python: str
    platforms: list[str]
    cache: str
    index: str
    wheels: str
    have: list[str]
    seconds: int


class DownloadError(Exception):
    """A coded sentence for the user."""


def build_pip_command(params: WheelhouseParams, dest: str, index: str) -> list[str]:
    """Return pip's command line for the nodes' Python, independent of the local one."""
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    line += ["--require-hashes", "--only-binary", ":all:", "--dest", dest]
    line += ["--implementation", "cp", "--python-version", params["python"]]
    for name in params["platforms"]:
        line += ["--platform", name]
    if params["wheels"]:
        line += ["--isolated", "--no-index", "--find-links", params["wheels"]]
    elif index:
        line += ["--extra-index-url", index]
    return [*line, "--requirement", params["requirements"]]


def select_node_requirements(params: WheelhouseParams, folder: str) -> WheelhouseParams:
    """Return the parameters with the lock reduced to the lines for the nodes' Python and machine."""
    with open(params["requirements"], encoding="utf-8") as stream:
        text = stream.read()
    if not any(";" in line for line in wheel_locks.parse_logical_lines(text)):
        return params
    machine = params["platforms"][-1].replace("linux_", "", 1)
    path = os.path.join(folder, "requirements.txt")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(wheel_locks.filter_lock_lines(text, params["python"], machine)) + "\n")
    return {**params, "requirements": path}


def download_wheels(params: WheelhouseParams, dest: str) -> None:
    """Run pip with its own settings, then with the index as well.

    The end of its output explains a failure.

    If the site's mirror or folder of wheels (pip config) has everything, no outside server is contacted.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted = select_node_requirements(params, folder)
        words = try_pip_download(wanted, dest, "")
        if words and params["index"] and not params["wheels"]:
            words = try_pip_download(wanted, dest, params["index"])
    if words:
        raise DownloadError(
            "[TR-106] pip could not download {} for Python {}: {}. Check torch_runtime_index and "
            "the controller's pip settings (pip config list).".format(
                params["requirements"], params["python"], " | ".join(words[-4:])
            )
        )


def try_pip_download(params: WheelhouseParams, dest: str, index: str) -> list[str]:
    """Run pip once.

    Return its output if it failed, [] on success.

    The lock has hashes for every version, so a constraint of this machine could only break it. Its pip.conf is read,
    because it may name the only reachable index, unless the wheels are already here.
    """
    own = {"PIP_CONSTRAINT": os.devnull}
    if params["wheels"]:
        own["PIP_CONFIG_FILE"] = os.devnull
    try:
        done = subprocess.run(
            build_pip_command(params, dest, index),
            check=False,
            env=dict(os.environ, **own),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=params["seconds"],
        )
    except subprocess.TimeoutExpired:
        raise DownloadError(
            "[TR-106] The download took longer than {} s. Fix: run again, because pip keeps finished downloads "
            "in its cache.".format(params["seconds"])
        ) from None
    words = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line]
    return (words or ["no output"]) if done.returncode else []


def load_recorded_wheels(record: str, wheels: str) -> dict[str, str] | None:
    """Return the set that an earlier run downloaded, if no file has changed."""
    try:
        with open(record) as stream:
            files = json.load(stream)
        if all(hash_file(os.path.join(wheels, name)) == digest for name, digest in files.items()):
            return dict(files)
    except (OSError, ValueError, AttributeError):
        return None
    return None


def fetch_wheels(params: WheelhouseParams, record: str, wheels: str) -> dict[str, str]:
    """Download to a temporary folder, then move the files into the cache, so that it never has partial files."""
    aside = tempfile.mkdtemp(prefix=".new-", dir=params["cache"])
    try:
        download_wheels(params, aside)
        files = {name: hash_file(os.path.join(aside, name)) for name in sorted(os.listdir(aside))}
        for name in files:
            os.replace(os.path.join(aside, name), os.path.join(wheels, name))
        with open(record + ".new", "w") as stream:
            json.dump(files, stream)
        os.replace(record + ".new", record)
        return files
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def measure_unpacked_bytes(path: str) -> int:
    """Return the unpacked size of a wheel, from its table of contents."""
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist())


def pack_wheels(files: dict[str, str], wheels: str, bundle: str) -> None:
    """Write the tar of *files*, without compression, because wheels are compressed."""
    handle, aside = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(bundle))
    try:
        with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as tar:
            for name in sorted(files):
                tar.add(os.path.join(wheels, name), arcname=name)
        os.replace(aside, bundle)
    finally:
        if os.path.exists(aside):
            os.unlink(aside)


def compute_set_name(params: WheelhouseParams) -> str:
    """Return a name for a download that depends on all its inputs."""
    parts = [hash_file(params["requirements"]), params["python"], *params["platforms"]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def ensure_wheel_bundle(files: dict[str, str], params: WheelhouseParams, wheels: str) -> str:
    """Return the path of the tar with the wheels that the nodes lack. A missing tar is created."""
    missing = {name: digest for name, digest in files.items() if digest not in params["have"]}
    if not missing:
        return ""
    name = hashlib.sha256(json.dumps(missing, sort_keys=True).encode()).hexdigest()[:16]
    folder = os.path.join(params["cache"], "bundles", params["key"])
    path = os.path.join(folder, name + ".tar")
    if not os.path.exists(path):
        # Only one bundle per set is kept. The wheels are kept as well.
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        pack_wheels(missing, wheels, path)
    return path


def hash_bundle_pieces(bundle: str) -> BundlePieces:
    """Return the hashes that nodes need to verify each piece of the bundle before forwarding it."""
    if not bundle:
        return {}
    pieces = []
    with open(bundle, "rb") as stream:
        for block in iter(lambda: stream.read(PIECE), b""):
            pieces.append(hashlib.sha256(block).hexdigest())
    return {"size": os.path.getsize(bundle), "piece": PIECE, "pieces": pieces}


def provide_wheels(params: WheelhouseParams) -> WheelhouseResult:
    """Provide the wheels and their bundle in the cache."""
    wheels = os.path.join(params["cache"], "files")
    os.makedirs(wheels, exist_ok=True)
    record = os.path.join(params["cache"], compute_set_name(params) + ".json")
    with open(os.path.join(params["cache"], ".lock"), "w") as lock:
        lock_wheel_cache(lock, params["seconds"])
        files = load_recorded_wheels(record, wheels)
        fresh = files is None
        if files is None:
            files = fetch_wheels(params, record, wheels)
        bundle = ensure_wheel_bundle(files, params, wheels)
    return {
        "changed": fresh,
        "key": params["key"],
        "wheels": files,
        "bundle": bundle,
        "bundle_bytes": os.path.getsize(bundle) if bundle else 0,
        "manifest": hash_bundle_pieces(bundle),
        "installed_bytes": sum(
            measure_unpacked_bytes(os.path.join(wheels, name)) for name in files
        ),
    }


def preview_wheels(params: WheelhouseParams) -> WheelhouseResult:
    """Return whether a run would download. For check mode, in which wheels may be missing."""
    record = os.path.join(params["cache"], compute_set_name(params) + ".json")
    files = load_recorded_wheels(record, os.path.join(params["cache"], "files"))
    return {
        "changed": files is None,
        "key": params["key"],
        "wheels": files or {},
        "bundle": "",
        "bundle_bytes": 0,
        "manifest": {},
        "installed_bytes": 0,
    }


def lock_wheel_cache(lock: IO[str], seconds: int) -> None:
    """Take the cache's lock. Waits a limited time for another run that downloads."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DownloadError(
                    f"[TR-106] Another run has used the cache for {seconds} s. Fix: wait for it or end it."
                ) from None
            time.sleep(0.5)
