# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Pack everything that an installation downloads into one checksummed archive, or unpack it.

Runs on the controller.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from typing import TypedDict

from ..files import hash_file
from ..foreign_text import parse_tool_json
from ..schema.bundle import BundleContents, BundleSource

SCHEMA = 1
INDEX = "bundle.json"
LEFT_OUT = (".venv", ".venv.lock", ".cache", ".git", ".ansible", "runs", "build", "__pycache__")


class BundleArchiveParams(TypedDict):
    """The parameters of bundle_archive. The module documents them."""

    state: str
    path: str
    folder: str
    sources: list[BundleSource]
    contents: BundleContents


class PackedBundle(TypedDict):
    """A new archive: its checksum and size."""

    changed: bool
    sha256: str
    bytes: int


class OpenedBundle(TypedDict):
    """A verified archive and the folder it is unpacked in. ``contents`` is the maker's description."""

    changed: bool
    folder: str
    contents: BundleContents
    sha256: str


class BundleError(Exception):
    """A coded sentence for the user."""


def list_project_files(root: str) -> list[str]:
    """Return the files that git tracks in a checkout. Without git: all except generated files."""
    if os.path.exists(os.path.join(root, ".git")):  # a file in a worktree
        said = subprocess.run(
            ["git", "-C", root, "ls-files", "-z"], check=True, stdout=subprocess.PIPE
        ).stdout
        names = [name for name in said.decode().split("\0") if name]
        return [name for name in names if os.path.lexists(os.path.join(root, name))]
    found = []
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if name not in LEFT_OUT and not name.startswith(".")]
        # os.walk has links to folders among the folders, and does not follow them
        links = [name for name in inside if os.path.islink(os.path.join(folder, name))]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in [*names, *links]]
    return sorted(found)


def pack_project(root: str, path: str) -> None:
    """Add the project to the archive as one tar."""
    with tarfile.open(path, "w") as tar:
        for name in list_project_files(root):
            tar.add(os.path.join(root, name), arcname="fullmesh/" + name, recursive=False)


def collect_bundle_files(sources: list[BundleSource], private: str) -> dict[str, str]:
    """Return place in the archive -> file on this machine."""
    files = {}
    for source in sources:
        if source.get("project"):
            files[source["place"]] = os.path.join(private, "project.tar")
            pack_project(source["project"], files[source["place"]])
        elif source.get("file"):
            files[source["place"]] = source["file"]
        else:
            files[os.path.join(source["place"], os.path.basename(source["path"]))] = source["path"]
    return files


def pack_bundle(params: BundleArchiveParams) -> PackedBundle:
    """Write the archive to a temporary file, then rename it, so that an interrupted run leaves no partial archive."""
    path = params["path"]
    private = tempfile.mkdtemp(prefix=".fullmesh-bundle-", dir=os.path.dirname(path) or ".")
    try:
        files = collect_bundle_files(params["sources"], private)
        index = {
            "schema": SCHEMA,
            "contents": params["contents"],
            "files": {place: hash_file(file) for place, file in sorted(files.items())},
        }
        aside = os.path.join(private, "bundle.tar")
        with tarfile.open(aside, "w") as tar:
            text = (json.dumps(index, indent=1, sort_keys=True) + "\n").encode()
            info = tarfile.TarInfo(INDEX)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
            for place, file in sorted(files.items()):
                tar.add(os.path.realpath(file), arcname=place, recursive=False)
        digest = hash_file(aside)
        with open(path + ".sha256", "w") as stream:
            stream.write(f"{digest}  {os.path.basename(path)}\n")
        os.replace(aside, path)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return {"changed": True, "sha256": digest, "bytes": os.path.getsize(path)}


def make_bundle_error(path: str, what: str) -> BundleError:
    """Return the error for a bundle that differs from the packed one."""
    return BundleError(
        f"[BN-102] {path} is damaged: {what}. Nothing was changed on any node. "
        f"Fix: copy it again together with {os.path.basename(path)}.sha256."
    )


def read_expected_checksum(path: str) -> str:
    """Return the checksum from the file next to the archive."""
    if not os.path.isfile(path):
        raise BundleError(
            f"[BN-101] There is no bundle at {path}. Fix: run `./fullmesh bundle` on a machine with a network."
        )
    try:
        with open(path + ".sha256") as stream:
            return stream.read().split()[0]
    except (OSError, IndexError):
        raise BundleError(
            f"[BN-101] The checksum {path}.sha256 does not exist. Fix: copy it together with the bundle."
        ) from None


def unpack_bundle(path: str, folder: str) -> BundleContents:
    """Unpack only plain files with the names and checksums of the index."""
    with tarfile.open(path) as tar:
        first = tar.next()
        text = tar.extractfile(first) if first is not None and first.name == INDEX else None
        if text is None:
            raise make_bundle_error(path, f"{INDEX} is not its first file")
        index = parse_tool_json(text.read().decode())
        if index["schema"] != SCHEMA:
            raise BundleError(
                f"[BN-101] {path} was made by another version of Fullmesh (schema {index['schema']}, this one "
                f"reads {SCHEMA}). Fix: use the project in the bundle."
            )
        left = dict(index["files"])
        for member in tar.getmembers()[1:]:
            wanted = left.pop(member.name, None)
            place = os.path.normpath(os.path.join(folder, member.name))
            source = tar.extractfile(member) if member.isfile() and wanted else None
            if source is None or not place.startswith(folder + os.sep):
                raise make_bundle_error(path, f"{member.name} does not belong there")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
            if hash_file(place) != wanted:
                raise make_bundle_error(path, f"{member.name} differs from the packed file")
    if left:
        raise make_bundle_error(path, f"{min(left)} is missing")
    contents: BundleContents = index["contents"]
    return contents


def open_bundle(params: BundleArchiveParams) -> OpenedBundle:
    """Verify the archive and unpack it. An existing folder was completed by an earlier run."""
    path = params["path"]
    wanted, found = read_expected_checksum(path), hash_file(path) if os.path.isfile(path) else ""
    if wanted != found:
        raise make_bundle_error(path, f"SHA-256 {found}, expected {wanted}")
    folder = os.path.join(params["folder"], found[:16])
    record = os.path.join(folder, "opened.json")
    if not os.path.exists(record):
        os.makedirs(params["folder"], exist_ok=True)
        aside = tempfile.mkdtemp(prefix=".new-", dir=params["folder"])
        try:
            contents = unpack_bundle(path, aside)
            with open(os.path.join(aside, "opened.json"), "w") as stream:
                json.dump(contents, stream)
            shutil.rmtree(folder, ignore_errors=True)
            os.chmod(aside, 0o755)  # noqa: S103 (packages and wheels are no secret)
            os.rename(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    with open(record) as stream:
        contents = json.load(stream)
    return {"changed": False, "folder": folder, "contents": contents, "sha256": found}
