"""Where Ansible's data becomes ours: read by its type, or refused with the path of what is wrong."""

from __future__ import annotations

from typing import Any, TypeVar, get_type_hints

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.plain import to_json_value

T = TypeVar("T")
# What a loop adds to each of its results (Ansible's documentation, "Registering variables with a loop"): these, and the
# item under the name that the first one gives.
LOOP_VAR, INDEX_VAR = "ansible_loop_var", "ansible_index_var"
# Where Ansible had to look for the Python, the first result has what it found.
FOUND = {"ansible_facts"}


def validate_answer(kind: type[T], value: Any, who: str) -> T:
    """What somebody answered, which is exactly what *kind* says.

    Args:
        kind: a type of ``fullmesh.observed``, or of a table in a role's vars.
        value: as Ansible has it.
        who: the module and node, or the variable, that it comes from.

    Raises:
        AnsibleFilterError: it is something else; with the path.
    """
    try:
        return contract.convert_value(kind, to_json_value(value))
    except contract.ContractError as error:
        # Ansible shows a cause as well, which would say the same again
        raise AnsibleFilterError(f"{who} has another form than expected: {error}") from None


def validate_registered(kind: type[T], said: Any, who: str) -> T:
    """The same of what a task registered: what Ansible adds, and what a loop adds, is none of the answer.

    Raises:
        AnsibleFilterError: it is something else; with the path.
    """
    loops = {LOOP_VAR, INDEX_VAR, said.get(LOOP_VAR), said.get(INDEX_VAR)}
    others = (contract.ANSIBLES | FOUND | loops) - get_type_hints(kind).keys()
    return validate_answer(kind, {key: said[key] for key in said if key not in others}, who)
