"""Checks the settings of a role: one filter for all roles."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.filters import late
from fullmesh.plain import to_json_value


def role_faults(role: str, **settings: Any) -> list[str]:
    """Return a coded sentence for each setting of *role* that cannot work.

    Args:
        role: a key of ``late.SETTING_CHECKS``.
        settings: the arguments of its function.

    Raises:
        AnsibleFilterError: a setting has another form than the function reads.
    """
    try:
        check = late.load_function(late.SETTING_CHECKS[role])
        return [str(fault) for fault in check(**to_json_value(settings))]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"role_faults({role!r}): {error!r}") from error
