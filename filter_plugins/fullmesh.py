"""Every filter of the project, from src/fullmesh/filters: the one place that finds the core beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from fullmesh.filters import late


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by the names that playbooks use."""
        return late.build_filter_table()
