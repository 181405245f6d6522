"""Set a host's facts from the answer that ask_nodes collected: the action of library/node_answer.py."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

ARGUMENTS = {"answer": {"type": "dict", "required": True}}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """``node_answer``."""

    _supports_check_mode = True
    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer's facts."""
        super().run(tmp, task_vars)
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        return {"changed": False, "ansible_facts": wanted["answer"]["ansible_facts"]}
