"""Provide Ansible with all filters of src/fullmesh/filters."""

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
    """The class that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters, by the names that playbooks use."""
        return late.build_filter_table()
