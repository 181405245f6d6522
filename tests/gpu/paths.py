"""Where the parts of Fullmesh are, for a machine on which nothing of it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests", "node_programs", "roles/verify_cluster/files", "src")
ON_NODES = "fullmesh_on_nodes"  # module_utils/fullmesh under a name that src/fullmesh does not have


class NoPattern:
    """A FAKE of msgspec.Meta that checks nothing."""

    def __init__(self, **_: object) -> None:
        """Accept the arguments of the real one."""


def fake_msgspec() -> types.ModuleType:
    """Make a FAKE of msgspec that checks no type: both ends of each answer are from this tree."""
    made = types.ModuleType("msgspec")
    made.convert = lambda value, *_, **__: value  # type: ignore[attr-defined]
    made.Meta = NoPattern  # type: ignore[attr-defined]
    made.ValidationError = ValueError  # type: ignore[attr-defined]
    return made


def fake_yaml() -> types.ModuleType:
    """Make a FAKE of PyYAML that reads nothing: no step needs the settings of the roles."""
    made = types.ModuleType("yaml")
    made.SafeLoader = object  # type: ignore[attr-defined]
    return made


STAND_INS = {"msgspec": fake_msgspec, "yaml": fake_yaml}


def find_parts() -> list[str]:
    """Make the parts importable; return the packages that are not installed and have a stand-in."""
    sys.path[:0] = [str(ROOT / folder) for folder in FOLDERS if str(ROOT / folder) not in sys.path]
    if ON_NODES not in sys.modules:
        folder = ROOT / "module_utils/fullmesh"
        spec = importlib.util.spec_from_file_location(
            ON_NODES, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        sys.modules[ON_NODES] = importlib.util.module_from_spec(spec)
    unknown = [name for name in STAND_INS if name not in sys.modules]
    missing = [name for name in unknown if not importlib.util.find_spec(name)]
    sys.modules.update({name: STAND_INS[name]() for name in missing})
    return missing
