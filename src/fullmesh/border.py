"""Convert Ansible's data to typed data, or reject it with the path of the error."""

from __future__ import annotations

from typing import Any, TypeVar, get_type_hints

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.plain import to_json_value

T = TypeVar("T")
# A loop adds these keys to each of its results, and the item under the name in the first one (Ansible's documentation,
# "Registering variables with a loop").
LOOP_VAR, INDEX_VAR = "ansible_loop_var", "ansible_index_var"
# If Ansible had to discover the Python, the first result contains it.
FOUND = {"ansible_facts"}


def validate_answer(kind: type[T], value: Any, who: str) -> T:
    """Convert an answer to *kind*, which it must match exactly.

    Args:
        kind: a type of ``fullmesh.observed``, or of a table in a role's vars.
        value: the value in Ansible.
        who: its source: the module and node, or the variable.

    Raises:
        AnsibleFilterError: it does not match. The message has the path.
    """
    try:
        return contract.convert_value(kind, to_json_value(value))
    except contract.ContractError as error:
        # Ansible would print the cause too, which repeats the message
        raise AnsibleFilterError(f"{who} has a different format than expected: {error}") from None


def validate_registered(kind: type[T], said: Any, who: str) -> T:
    """Convert the result that a task registered, without the keys that Ansible and a loop add.

    Raises:
        AnsibleFilterError: it does not match. The message has the path.
    """
    loops = {LOOP_VAR, INDEX_VAR, said.get(LOOP_VAR), said.get(INDEX_VAR)}
    others = (contract.ANSIBLES | FOUND | loops) - get_type_hints(kind).keys()
    return validate_answer(kind, {key: said[key] for key in said if key not in others}, who)
