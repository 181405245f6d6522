"""Save a result on the controller: the action of the module with this name (library/run_result.py).

This is an action plugin because a module starts a new interpreter, which imports everything again. That takes 0.5 s of
a diagnosis that should take only a few seconds.
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
    """Write the result and the reports, and return the output of the task.

    If a report cannot be written, the task only warns: the result is saved already.
    """
    text = json.dumps(wanted["result"], indent=2, sort_keys=False) + "\n"
    try:
        path = write.save_result(Path(wanted["directory"]), wanted["run"], text)
    except OSError as exc:
        why = f"the result could not be written to {wanted['directory']}: {exc}"
        return {"failed": True, "changed": False, "msg": why}
    output: dict[str, Any] = {"changed": False, "path": str(path), "reports": []}
    try:
        output["reports"] = [str(made) for made in write.write_reports_beside(path)]
    except Exception as exc:
        again = "./fullmesh report --html tries again."
        output["warnings"] = [f"the reports of {path} could not be written: {exc!r}. {again}"]
    return output


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """``run_result``."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Check the arguments and save the result."""
        super().run(tmp, task_vars)
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        return write_run_result(wanted)
