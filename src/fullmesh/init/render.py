"""Render the inventory as text.

Ansible trusts an inventory and reads each text in it as a template. A YAML dumper writes every value, and each value
that a machine reported has passed ``fullmesh.contract``: no pattern there lets "{" or a line feed through.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fullmesh.init.machines import Machine
from fullmesh.init.propose import USUAL_MTU, NetworkAttachment, NetworkProposal
from fullmesh.init.rails_proposal import RailsProposal
from fullmesh.printed import clean_and_shorten

HEAD = """\
# Written by `./fullmesh init`. Edit it as you like. Reasons for this network:
"""
USER_LINE = "ansible_user: admin\n"
LINKS = "fullmesh_links:\n"


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, a line for each key."""
    text: str = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, width=float("inf"), default_flow_style=False
    )
    return text


def build_link_entry(seat: NetworkAttachment) -> dict[str, Any]:
    """Return all that a node's interface has today, as an entry of fullmesh_links."""
    link: dict[str, Any] = {"interface": seat.card["name"], "addresses": [seat.address]}
    if seat.default is not None:
        link["gateway"] = seat.default["via"]
    if seat.dns:
        link["dns"] = list(seat.dns)
    if seat.search:
        link["search"] = list(seat.search)
    if seat.card["mtu"] != USUAL_MTU:
        link["mtu"] = seat.card["mtu"]
    return link


def build_host_variables(
    machine: Machine, seat: NetworkAttachment, common_user: str
) -> dict[str, Any]:
    """Return a machine's variables: the short form if it says all, else everything that the interface has today."""
    found: dict[str, Any] = {}
    if machine.ssh != machine.name:
        found["ansible_host"] = machine.ssh
    if machine.user and machine.user != common_user:
        found["ansible_user"] = machine.user
    if seat.simple:
        address = {"fullmesh_address": seat.address, "fullmesh_interface": seat.card["name"]}
        return found | address
    return found | {"fullmesh_links": [build_link_entry(seat)]}


def render_host(name: str, variables: Mapping[str, Any], seat: NetworkAttachment) -> str:
    """Return a machine's lines of hosts.yml."""
    why = "the interface of the default route"
    if seat.default is None:
        why = "an interface with a different MTU"
    text = dump_yaml({name: variables})
    text = text.replace(LINKS, f"{LINKS.rstrip()} # {why}: docs/links.md\n", 1)
    return textwrap.indent(text, "    ")


def render_rails(rails: RailsProposal) -> str:
    """Return the lines of the rails: variables if they are certain, comments otherwise."""
    title = (
        "Rails (docs/rails.md):"
        if rails.certain
        else "init is not sure about rails (docs/rails.md):"
    )
    lines = [f"# {title}", *(f"# * {clean_and_shorten(reason)}" for reason in rails.reasons)]
    if rails.rails and not rails.certain:
        lines.append("# A draft for you to check:")
    text = "".join(f"{line}\n" for line in lines)
    if rails.rails:
        entries = yaml.safe_dump(
            {"fullmesh_rails": list(rails.rails)},
            sort_keys=False,
            allow_unicode=True,
            width=float("inf"),
            default_flow_style=None,
        )
        text += entries if rails.certain else textwrap.indent(entries, "# ")
    text = textwrap.indent(text, "    ")
    return f"  vars:\n{text}" if rails.certain else text


def render_hosts_file(
    machines: Sequence[Machine],
    proposal: NetworkProposal,
    common_user: str,
    rails: RailsProposal | None = None,
) -> str:
    """Render hosts.yml."""
    lines = [
        HEAD.rstrip("\n"),
        *(f"# * {clean_and_shorten(reason)}" for reason in proposal.reasons()),
    ]
    found = "\n".join([*lines, "torch_nodes:", "  hosts:", ""])
    for machine in machines:
        seat = proposal.seats[machine.name]
        found += render_host(machine.name, build_host_variables(machine, seat, common_user), seat)
    return found + render_rails(rails) if rails else found


def render_settings_file(template: str, user: str, *, keep_network: bool) -> str:
    """Render group_vars/all.yml: that of inventory/prod, with the user's account."""
    line = "# ansible_user: admin # left to ssh\n"
    if user:
        line = dump_yaml({"ansible_user": user})
    text = template.replace(USER_LINE, line, 1)
    if keep_network:
        text += "static_ip_manage: false # another system manages the addresses\n"
    return text


def build_survey_inventory(machines: Sequence[Machine]) -> Mapping[str, object]:
    """Build the inventory for the survey."""
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
