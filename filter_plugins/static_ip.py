"""Hands the checks of the role static_ip to Ansible."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ansible.errors import AnsibleFilterError

from fullmesh import static_ip as core


def static_ip_faults(links: list[dict[str, Any]], wait_seconds: int) -> list[str]:
    """Coded sentences: what is wrong with the links of a node."""
    try:
        return [str(fault) for fault in core.faults(links, int(wait_seconds))]
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"static_ip_faults: {error!r}") from error


def static_ip_addresses(links: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What the manifest watches of the links."""
    return core.addresses(links)


class FilterModule:
    """Filters of the role static_ip."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"static_ip_faults": static_ip_faults, "static_ip_addresses": static_ip_addresses}
