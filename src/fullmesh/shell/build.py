"""Build the package with setuptools, after rendering the man page."""

from __future__ import annotations

from collections.abc import Mapping
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


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, str | list[str] | None] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the man page into ``build/``, the place that pyproject.toml names, and build the wheel."""
    page = Path("build/fullmesh.1")
    page.parent.mkdir(exist_ok=True)
    page.write_text(render_manual(), encoding="utf-8")
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
