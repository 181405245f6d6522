"""Keeps a result on the controller: the work behind the module of the same name (library/run_result.py).

Here and not in the module, because a module is a new interpreter that loads everything once more: half a second of a
diagnosis that is to take a few.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible.plugins.action import ActionBase

from fullmesh.report import write

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "run": {"type": "str", "required": True},
    "result": {"type": "dict", "required": True},
}


def write_run_result(wanted: dict[str, Any]) -> dict[str, Any]:
    """Write the result and, beside it, the reports; what Ansible is told.

    A picture that cannot be drawn loses no result: the run is judged all the same.
    """
    text = json.dumps(wanted["result"], indent=2, sort_keys=False) + "\n"
    try:
        path = write.save_result(Path(wanted["directory"]), wanted["run"], text)
    except OSError as exc:
        why = f"the result could not be written to {wanted['directory']}: {exc}"
        return {"failed": True, "changed": False, "msg": why}
    told: dict[str, Any] = {"changed": False, "path": str(path), "reports": []}
    try:
        told["reports"] = [str(made) for made in write.write_reports_beside(path)]
    except Exception as exc:
        again = "./fullmesh report --html tries again."
        told["warnings"] = [f"no report beside {path}: {exc!r}. {again}"]
    return told


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """``run_result``."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Check the arguments, keep the result."""
        super().run(tmp, task_vars)
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        return write_run_result(wanted)
