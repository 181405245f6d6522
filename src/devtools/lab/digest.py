"""Digests of a build stage's inputs: the same digest means the same result, so no rebuild."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

LENGTH = 16


def files(paths: Iterable[Path]) -> list[Path]:
    """Return the files in and under *paths*, without Python's caches, in a fixed order."""
    found: set[Path] = set()
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        found.update(p for p in inside if p.is_file() and "__pycache__" not in p.parts)
    return sorted(found)


def stage(root: Path, paths: Iterable[Path], words: Iterable[str] = ()) -> str:
    """Return the digest of file names (relative to *root*), contents and *words*.

    Time stamps and the checkout's path do not count, so a fresh clone finds the cache.
    """
    sha = hashlib.sha256()
    for path in files(paths):
        sha.update(f"{path.relative_to(root)}\0{path.stat().st_mode & 0o111:o}\0".encode())
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    for word in words:
        sha.update(f"{word}\0".encode())
    return sha.hexdigest()[:LENGTH]
