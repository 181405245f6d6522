"""Every filter of the project, from src/fullmesh/filters: the one place that finds the core beside it."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
sys.path[:0] = [
    str(one / "src") for one in Path(__file__).resolve().parents[1:3] if (one / "src").is_dir()
]

from fullmesh import filters


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by the names that playbooks use; two of one name are a mistake of ours."""
        found: dict[str, Callable[..., Any]] = {}
        for one in pkgutil.iter_modules(filters.__path__, f"{filters.__name__}."):
            more = importlib.import_module(one.name).FilterModule().filters()
            twice = found.keys() & more.keys()
            if twice:
                raise RuntimeError(
                    f"{one.name}: {', '.join(sorted(twice))} is another file's filter"
                )
            found |= more
        return found
