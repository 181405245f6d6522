"""The inventory as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fullmesh.init.machines import Machine
from fullmesh.init.propose import USUAL_MTU, Proposal, Seat

HEAD = """\
# Written by `./fullmesh init`; yours from now on. Why this network:
"""
USER_LINE = "ansible_user: admin\n"


def quoted(value: str) -> str:
    """A YAML text (JSON's quoting is a part of YAML)."""
    return json.dumps(value, ensure_ascii=False)


def address_lines(seat: Seat) -> list[str]:
    """The node's address: the short form where it says all, else all that the card has today."""
    if seat.simple:
        return [
            f"      fullmesh_address: {seat.address}",
            f"      fullmesh_interface: {seat.card['name']}",
        ]
    parts = [f"interface: {seat.card['name']}", f"addresses: [{quoted(seat.address)}]"]
    if seat.default is not None:
        parts.append(f"gateway: {quoted(seat.default['via'])}")
    if seat.dns:
        parts.append(f"dns: [{', '.join(map(quoted, seat.dns))}]")
    if seat.search:
        parts.append(f"search: [{', '.join(map(quoted, seat.search))}]")
    if seat.card["mtu"] != USUAL_MTU:
        parts.append(f"mtu: {seat.card['mtu']}")
    why = (
        "the default route's card" if seat.default is not None else "a card with an MTU of its own"
    )
    return [
        f"      fullmesh_links: # {why}: docs/links.md",
        f"        - {{{', '.join(parts)}}}",
    ]


def hosts_text(machines: Sequence[Machine], proposal: Proposal, common_user: str) -> str:
    """hosts.yml."""
    lines = [HEAD.rstrip("\n"), *(f"# * {reason}" for reason in proposal.reasons())]
    lines += ["torch_nodes:", "  hosts:"]
    for machine in machines:
        lines.append(f"    {machine.name}:")
        if machine.ssh != machine.name:
            lines.append(f"      ansible_host: {quoted(machine.ssh)}")
        if machine.user and machine.user != common_user:
            lines.append(f"      ansible_user: {quoted(machine.user)}")
        lines += address_lines(proposal.seats[machine.name])
    return "\n".join(lines) + "\n"


def settings_text(template: str, user: str, *, keep_network: bool) -> str:
    """group_vars/all.yml: that of inventory/prod with the user that is meant."""
    line = f"ansible_user: {quoted(user)}\n" if user else "# ansible_user: admin # left to ssh\n"
    text = template.replace(USER_LINE, line, 1)
    if keep_network:
        text += "static_ip_manage: false # the addresses are somebody else's to keep\n"
    return text


def bootstrap(machines: Sequence[Machine]) -> Mapping[str, object]:
    """The inventory with which they are asked."""
    return {
        "all": {
            "hosts": {
                one.name: {
                    "ansible_host": one.ssh,
                    **({"ansible_user": one.user} if one.user else {}),
                }
                for one in machines
            }
        }
    }
