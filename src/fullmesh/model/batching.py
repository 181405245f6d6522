"""Read the settings that control a run but do not change a node's state: batch size and ssh address.

Pure: data in, data or faults out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model import addresses
from fullmesh.model.addresses import split_host_port

EVERYONE = "100%"
HIGHEST_PORT = 65535


def parse_batches(value: Any) -> list[int | str]:
    """Read ``fullmesh_serial`` as a play's ``serial`` takes it.

    Args:
        value: a number of nodes, a percentage of them, or a list of these, one for each batch. The last one repeats
            (Ansible's playbook guide, "Setting the batch size with serial").

    Raises:
        ValueError: none of these. Ansible itself takes ``0`` for "all" and rounds ``0%`` up to one node.
    """
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError("the list is empty")
    return [_parse_batch(one) for one in given]


def _parse_batch(value: Any) -> int | str:
    text = str(value)
    if not isinstance(value, bool):
        if re.fullmatch(r"[1-9][0-9]*", text, re.ASCII):
            return int(text)
        if re.fullmatch(r"([1-9][0-9]?|100)%", text, re.ASCII):
            return text
    raise ValueError(f"{text!r} is neither a number of nodes nor a percentage up to 100%")


def read_serial(value: Any, faults: list[Fault]) -> list[int | str]:
    """Read ``fullmesh_serial`` for the plan. A malformed value is a fault."""
    try:
        return parse_batches(value)
    except ValueError as error:
        faults.append(
            Fault(
                "PL-128",
                f"fullmesh_serial {value!r}: {error}",
                "Set how many nodes may change at a time, such as 1 or 25%",
            )
        )
        return [EVERYONE]


def check_ssh_addresses(hosts: Mapping[str, Mapping[str, Any]], faults: list[Fault]) -> None:
    """Report each ``fullmesh_ssh_address`` that ssh cannot use."""
    for host, chosen in hosts.items():
        given = str(chosen.get("fullmesh_ssh_address") or "")
        if given and not is_ssh_address(given):
            faults.append(
                Fault(
                    "PL-129",
                    f"{host}: fullmesh_ssh_address {given!r} is not an address or host name, with or without a port",
                    "Write it like gateway.example:2223 or [fd78::1]:22",
                )
            )


def is_ssh_address(text: str) -> bool:
    """Return whether *text* is ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address."""
    try:
        host, port = split_host_port(text)
    except ValueError:
        return False
    return 0 <= port <= HIGHEST_PORT and (
        addresses.is_address(host) or addresses.is_host_name(host)
    )


def find_plan_batches(
    hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]
) -> list[int | str]:
    """Return the batches from the plan of *hosts*, or all nodes at once if there is no plan.

    With ``--limit``, some hosts have no plan. With ``--syntax-check`` (and ansible-lint), hosts only have names.
    """
    for host in hosts:
        if host in hostvars and "fullmesh_plan" in hostvars[host]:
            found: list[int | str] = hostvars[host]["fullmesh_plan"]["serial"]
            return found
    return [EVERYONE]
