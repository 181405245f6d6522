"""Collect the members of a support bundle, replace identities in them, and write a reproducible archive."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullmesh import __version__
from fullmesh.explain.reader import BUNDLE_CONTENTS
from fullmesh.foreign_text import parse_foreign_json
from fullmesh.support.redact import Redactor

SCHEMA = 1
RESULT = "result.json"
RUN_RESULT = re.compile(rf"runs/([A-Za-z0-9_-]{{1,80}})/{re.escape(RESULT)}")
MOST_RUNS = 5
# what a run leaves -> its form. Reports are rendered from them again.
RUN_FILES = {RESULT: "json", "ansible.log": "text", "events.jsonl": "jsonl"}
MOST_TEXT = 2 << 20  # bytes of a log. Its end stays.
MOST_JSON = (
    64 << 20
)  # bytes of a result. A larger one is left out, because a part of it is no JSON.
MOST_TOTAL = 64 << 20
MOST_MEMBERS = 4096
MOST_RESULT = 256 << 20  # bytes of a result that is read from a bundle
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can have
MODE = 0o600


@dataclass(frozen=True)
class BundleMember:
    """A file of the bundle.

    Attributes:
        name: its path in the archive.
        form: text, json or jsonl.
        text: what it contains.
        note: a remark for the list of contents: the reason why it is not complete.
    """

    name: str
    form: str
    text: str
    note: str = ""


@dataclass
class CollectedFiles:
    """Files for the bundle, with those that were left out and why."""

    members: list[BundleMember] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    total: int = 0

    def add_text(self, name: str, form: str, data: bytes, note: str = "") -> None:
        """Add a member, unless the bundle has become too large."""
        if self.total + len(data) > MOST_TOTAL or len(self.members) >= MOST_MEMBERS:
            self.left_out[name] = "the bundle is full"
            return
        self.total += len(data)
        self.members.append(BundleMember(name, form, data.decode("utf-8", "replace"), note))

    def add_file(self, name: str, form: str, path: Path) -> None:
        """Read a file of the controller. Links are not followed."""
        most = MOST_TEXT if form == "text" else MOST_JSON
        try:
            data, size = read_regular_file(path, most)
        except OSError as error:
            self.left_out[name] = error.strerror or str(error)
            return
        note = ""
        if size > most:
            if form == "json":
                self.left_out[name] = f"it has {size} bytes, more than {most}"
                return
            data = data.partition(b"\n")[2]
            note = f"the last {len(data)} of {size} bytes"
        self.add_text(name, form, data, note)


def read_regular_file(path: Path, most: int) -> tuple[bytes, int]:
    """Read the last *most* bytes of a file. Return them and the size of the file.

    Raises:
        OSError: it is a link, is not a regular file, or cannot be read.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as stream:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        stream.seek(max(0, status.st_size - most))
        return stream.read(most), status.st_size


def collect_runs(runs: Path, files: CollectedFiles) -> None:
    """Add the newest runs. Links such as ``latest`` are skipped."""
    folders = [
        one
        for one in (sorted(runs.iterdir(), reverse=True) if runs.is_dir() else [])
        if one.is_dir()
        and not one.is_symlink()
        and any((one / name).exists() for name in RUN_FILES)
    ]
    for folder in folders[:MOST_RUNS]:
        for name, form in RUN_FILES.items():
            if os.path.lexists(folder / name):
                files.add_file(f"runs/{folder.name}/{name}", form, folder / name)


def collect_logs(paths: Iterable[Path], files: CollectedFiles) -> None:
    """Add logs of jobs, named by number: the name of a file may be one of a person."""
    for number, path in enumerate(paths, 1):
        files.add_file(f"logs/{number:03d}.log", "text", path)


def collect_nodes(folder: Path, files: CollectedFiles) -> None:
    """Add the answers of the nodes: NAME.json with a manifest, errors, and why a record is missing."""
    for number, path in enumerate(sorted(folder.glob("*.json")), 1):
        name = f"nodes/{number:03d}"
        try:
            data, size = read_regular_file(path, MOST_JSON)
            answer = parse_foreign_json(data) if size <= MOST_JSON else None
        except (OSError, ValueError) as error:
            files.left_out[name] = str(error)
            continue
        if not isinstance(answer, dict):
            files.left_out[name] = "its answer is not a mapping"
            continue
        if isinstance(answer.get("manifest"), str):
            with contextlib.suppress(ValueError):  # it stays a text if it is damaged
                answer["manifest"] = parse_foreign_json(answer["manifest"])
        if answer.get(
            "failed"
        ):  # it may name hosts and users, so the list of contents does not quote it
            files.left_out[name] = "a record of the node could not be read, see its node.json"
        errors = str(answer.pop("errors", "") or "").encode()[-MOST_TEXT:]
        files.add_text(f"{name}/node.json", "json", json.dumps(answer, indent=2).encode())
        if errors:
            files.add_text(f"{name}/errors.log", "text", errors)


def redact_members(members: Iterable[BundleMember], redactor: Redactor) -> list[BundleMember]:
    """Replace what identifies the site in all members.

    Raises:
        ValueError: there are more networks than replacements.
    """
    found = list(members)
    for one in found:
        redactor.learn_member(one.text, one.form)
    texts = [one.text.lower() for one in found]
    redactor.choose_replacements(lambda word: any(word.lower() in text for text in texts))
    return [
        BundleMember(one.name, one.form, redactor.redact_member(one.text, one.form), one.note)
        for one in found
    ]


def describe_contents(
    files: CollectedFiles,
    members: Iterable[BundleMember],
    redactor: Redactor,
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """List what the bundle contains, for the archive and for people."""
    rows = []
    for one in members:
        data = one.text.encode("utf-8", "replace")
        row = {"name": one.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        rows.append({**row, "note": one.note} if one.note else row)
    return {
        "schema": SCHEMA,
        "kind": "fullmesh-support-bundle",
        "fullmesh": __version__,
        "versions": dict(versions),
        "names": "kept" if redactor.keep_names else "replaced",
        "replaced": redactor.count_replaced(),
        "members": rows,
        "left_out": [{"name": name, "why": why} for name, why in files.left_out.items()],
    }


def pack_bundle(members: Iterable[BundleMember], contents: Mapping[str, Any]) -> bytes:
    """Return the archive. The same members make the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        listed = {BUNDLE_CONTENTS: json.dumps(contents, indent=2) + "\n"}
        listed |= {one.name: one.text for one in members}
        for name, text in listed.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, MODE << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text.encode("utf-8", "replace"))
    return buffer.getvalue()


def write_bundle(path: Path, data: bytes) -> None:
    """Write the archive for its owner only. An existing file or link is never replaced.

    Raises:
        OSError: it exists, or cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(path, flags, MODE)
    try:
        with os.fdopen(opened, "wb") as bundle:
            os.fchmod(opened, MODE)
            bundle.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_bundle_results(path: Path) -> dict[str, bytes]:
    """Return the result.json of each run in a bundle, oldest first. Empty: it is not a support bundle.

    Raises:
        ValueError: a result is too large, or the archive is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {one.filename: one for one in archive.infolist()[: MOST_MEMBERS + 1]}
            found = {}
            for name in sorted(infos) if BUNDLE_CONTENTS in infos else ():
                run = RUN_RESULT.fullmatch(name)
                if run is None:
                    continue
                if infos[name].file_size > MOST_RESULT:
                    raise ValueError(f"[CL-114] {path}: {name} has {infos[name].file_size} bytes")
                found[run[1]] = archive.read(name)
            return found
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError) as error:
        raise ValueError(f"[CL-114] {path} is a damaged archive: {error}") from None
