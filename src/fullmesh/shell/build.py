"""Build the package with setuptools: with the man page and the playbooks, and the same bytes for the same files."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from fullmesh.shell.commands import render_manual

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# what diagnose, hang and support-bundle need next to the package (settings.ROOT)
TREE = (
    "action_plugins",
    "ansible.cfg",
    "callback_plugins",
    "filter_plugins",
    "library",
    "module_utils",
    "node_programs",
    "playbooks",
    "roles",
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can have
MODE = 0o100644


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, str | list[str] | None] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the man page into ``build/``, the place that pyproject.toml names, and build the wheel."""
    page = Path("build/fullmesh.1")
    page.parent.mkdir(exist_ok=True)
    page.write_text(render_manual(), encoding="utf-8")
    name = str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
    rewrite_wheel(Path(wheel_directory) / name)
    return name


def list_tree_files() -> Iterator[str]:
    """List the files of the checkout that the package needs. Links are read as what they lead to."""
    for top in TREE:
        if Path(top).is_file():
            yield top
        for folder, folders, names in os.walk(top, followlinks=True):
            folders[:] = [one for one in folders if one != "__pycache__"]
            yield from (f"{folder}/{one}" for one in names)


def rewrite_wheel(path: Path) -> None:
    """Add the playbooks to a wheel, and leave out the times and modes of files."""
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist() if not one.endswith("/")}
    (record,) = (one for one in files if one.endswith(".dist-info/RECORD"))
    del files[record]
    files |= {f"fullmesh/tree/{one}": Path(one).read_bytes() for one in list_tree_files()}
    rows = [f"{one},{describe_content(files[one])}\n" for one in sorted(files)]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for one in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            info = zipfile.ZipInfo(one, EPOCH)
            info.create_system, info.external_attr = 3, MODE << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[one])


def describe_content(data: bytes) -> str:
    """Return checksum and size of a file, as RECORD has them."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(data)}"
