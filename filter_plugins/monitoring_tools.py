"""Hands what the role monitoring_tools owns to Ansible."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from fullmesh import monitoring_tools as core


class FilterModule:
    """Filters of the role monitoring_tools."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"monitoring_tools_owned": core.owned}
