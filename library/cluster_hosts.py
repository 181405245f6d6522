# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make every node's names resolve to its cluster address, and prove it with the resolver itself."""

from __future__ import annotations

import glob
import os
import socket
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh import hosts_file as text
from ansible.module_utils.fullmesh.files import put, read
from ansible.module_utils.fullmesh.state import written
from ansible.module_utils.fullmesh.state.errors import UndoError
from ansible.module_utils.fullmesh.state.record import Point

if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

DOCUMENTATION = r"""
---
module: cluster_hosts
short_description: Own a block of /etc/hosts, and read every name back through the resolver
description:
  - Writes the block first in the file and takes our names out of all other lines (the C(127.0.1.1) trap).
  - Then asks getaddrinfo for each name, as Gloo does, and fails unless the cluster address comes first.
options:
  hosts:
    description: The lines, each with C(address) and C(names); with V(present).
    type: list
    elements: dict
  address:
    description: This node's own cluster address; the node's own names are added to that line; with V(present).
    type: str
  state:
    description:
      - V(absent) gives the file back, as the undo point of the role has it. Where others have changed it since, only
        our block goes, and what it had taken out comes back.
    type: str
    choices: [present, absent]
    default: present
  own_names:
    description: The node's host name and fully qualified name.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Shows the new file; names are asked only when the file is already right.
    support: full
  diff_mode:
    description: The whole file.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Make the nodes' names known
  cluster_hosts:
    hosts: [{address: 10.0.0.11, names: [node1]}]
    address: 10.0.0.11
    own_names: [node1.example.org, node1]
"""

RETURN = r"""
names:
  description: Every name and the addresses that it resolves to, in order.
  type: dict
  returned: when the names were asked
cloud_init:
  description: The file and value by which cloud-init rewrites /etc/hosts at boot; empty where it does not.
  type: str
  returned: state is present
"""

HOSTS = "/etc/hosts"
NSSWITCH = "/etc/nsswitch.conf"
ROLE = "name_resolution"
CLOUD = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")


class HostsError(Exception):
    """A coded sentence for the user."""


def refuse_order(nsswitch: str) -> None:
    """Refuse a resolver that asks somebody else before /etc/hosts."""
    sources = text.nsswitch_sources(nsswitch)
    if sources[:1] != ["files"]:
        raise HostsError(
            "[NR-103] {} asks {} for host names, so /etc/hosts is not the first word. "
            "Let the line `hosts:` begin with files.".format(
                NSSWITCH, " then ".join(sources) or "nobody"
            )
        )


def cloud_init() -> str:
    """Where cloud-init is told to write /etc/hosts; the last file wins."""
    found = ""
    for pattern in CLOUD:
        for path in sorted(glob.glob(pattern)):
            value = text.cloud_init_hosts(read(path))
            if value is not None:
                found = f"manage_etc_hosts: {value} in {path}" if value else ""
    return found


def resolve(name: str) -> list[str]:
    """The addresses of a name in the resolver's order."""
    try:
        found = socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    addresses = [str(entry[4][0]) for entry in found]
    return sorted(set(addresses), key=addresses.index)


def converge(params: Entry, check: bool) -> Entry:
    """Write what differs, then ask the resolver."""
    refuse_order(read(NSSWITCH))
    hosts = text.with_own(params["hosts"], params["address"], params["own_names"])
    before = read(HOSTS)
    after = text.render(before, hosts)
    changed = before != after
    result: Entry = {
        "changed": changed,
        "cloud_init": cloud_init(),
        "diff": diff(before, after),
    }
    if changed and check:
        return result
    if changed:
        put(os.path.realpath(HOSTS), after)
    result["names"] = {name: resolve(name) for host in hosts for name in host["names"]}
    wrong = text.wrong_answers(hosts, result["names"])
    if wrong:
        raise HostsError(
            "[NR-104] names do not resolve to their cluster address: {}. "
            "See `getent ahosts NAME` and {} on the node.".format("; ".join(wrong), NSSWITCH)
        )
    return result


def diff(before: str, after: str) -> dict[str, str]:
    """The whole file, then and now."""
    return {"before": before, "after": after, "before_header": HOSTS, "after_header": HOSTS}


def original() -> tuple[str, str]:
    """What the undo point has of the file: its kind (empty without a point), and its text."""
    point = Point("", ROLE)
    then = point.load()["files"].get(HOSTS)
    if then is None:
        return "", ""
    return then["kind"], point.blob(then).decode("utf-8", "surrogateescape")


def give_back(check: bool) -> Entry:
    """Take out what is ours; where nobody else has changed the file, it is the one of before, byte for byte."""
    kind, then = original()
    before = read(HOSTS)
    after = before
    if kind == "file" and written.known("", ROLE).get(HOSTS) == written.sum_of(before):
        after = then
    elif kind and text.BEGIN in before.splitlines():
        after = text.given_back(before, then)
    changed = before != after
    if changed and not check:
        if kind == "absent" and not after:
            os.unlink(HOSTS)
        else:
            put(os.path.realpath(HOSTS), after)
    return {"changed": changed, "diff": diff(before, after)}


def main() -> None:
    """Read the parameters, call, answer."""
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "list", "elements": "dict"},
            "address": {"type": "str"},
            "own_names": {"type": "list", "elements": "str", "default": []},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("hosts", "address"))],
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "absent":
            result = give_back(module.check_mode)
        else:
            result = converge(module.params, module.check_mode)
    except (HostsError, UndoError, OSError) as exc:
        module.fail_json(msg=str(exc))
    if result.get("cloud_init"):
        module.warn(
            "[NR-105] cloud-init will overwrite {} at the next boot ({}). Set manage_etc_hosts: false, "
            "or put these lines into its template in /etc/cloud/templates.".format(
                HOSTS, result["cloud_init"]
            )
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
