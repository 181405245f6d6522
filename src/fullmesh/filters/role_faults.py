"""Check the settings of a role, with one filter for all roles."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.filters import late
from fullmesh.plain import to_json_value


def role_faults(role: str, variables: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
    """Return a coded sentence for each setting of *role* that cannot work.

    The check takes each variable by its name without the role's prefix, ``settings`` (all of them by their full names)
    or ``options`` (all of them without the prefix).

    Args:
        role: a key of ``late.SETTING_CHECKS``.
        variables: all variables of the role, by their full names.
        more: further arguments of the check.

    Raises:
        AnsibleFilterError: a setting does not have the form that the function expects.
    """
    try:
        check = late.load_function(late.SETTING_CHECKS[role])
        settings = to_json_value(variables)
        options = {name.removeprefix(f"{role}_"): value for name, value in settings.items()}
        known = {"settings": settings, "options": options, **options, **to_json_value(more)}
        taken = inspect.signature(check).parameters
        return [
            str(fault) for fault in check(**{name: known[name] for name in taken if name in known})
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"role_faults({role!r}): {error!r}") from error
