# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Open exactly the cluster's ports to its peers in firewalld, in one transaction, and prove it in the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.firewall.peers import Firewall, FirewallRefusedError
from ansible.module_utils.fullmesh.state.errors import UndoError

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.firewall.types import FirewallParams

DOCUMENTATION = r"""
---
module: peer_zone
short_description: The ports of the cluster's peers in firewalld, as one transaction
description:
  - Writes policies for peers and controllers and their ipsets as files of its own, checks them in a copy of the
    configuration, arms a timer that puts everything back, starts or reloads firewalld once, and compares the kernel's
    rules with the files. Established connections survive; zones, interfaces and the default zone are not touched.
  - A policy only adds. What the zone of their interface or address lets in, peers reach as before.
  - The addresses at the other end of every ssh session that carries the play are taken from the node and always keep
    ssh, as all controllers of the request do.
  - Rules beside firewalld that would drop the peers' traffic are found in the kernel and named, before and after.
options:
  state:
    description:
      - V(present) opens the ports. V(confirmed) disarms the timer. V(reloaded) makes firewalld read its files again,
        when it runs. V(off) stops and disables firewalld. V(leaving) and V(left) stand before and after an undo.
        The first arms a timer that brings back the firewall of now, and somebody has to confirm after the second. They
        switch ufw on again where V(present) took over from it, and keep other people's iptables rules over the end of
        firewalld.
    type: str
    choices: [present, confirmed, reloaded, 'off', leaving, left]
    default: present
  request:
    description:
      - What is wanted, for V(present). The filter C(peer_firewall_request) makes it of the role's variables;
        C(PeerFirewall) in schema/peer_list.py describes each entry. Its C(zone) and C(rollback_seconds) come before
        the options of these names.
    type: dict
    default: {}
  zone:
    description: Name of that zone, and the start of the names of policies and ipsets; at most 13 characters.
    type: str
    default: fullmesh
  rollback_seconds:
    description:
      - When nobody confirms within this time, the node puts everything back. With 0 nobody has to confirm; a change
        that fails is put back all the same.
    type: int
    default: 60
  token:
    description:
      - Of this run. Who confirms or restores has to show the one that the change was armed with, so that a late run
        ends no other one's change. The caller's choice, because the answer to the call that arms may get lost.
    type: str
    default: ''
attributes:
  check_mode:
    description: Files are compared, nothing is started; on a bare node the files that would come are shown.
    support: full
  diff_mode:
    description: Every file that differs.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Allow the peers in the firewall
  peer_zone:
    request: "{{ __peer_firewall_request }}"
"""

RETURN = r"""
needs_package:
  description: firewalld is not installed; call again once it is, before it was ever started.
  type: bool
  returned: state is present
armed:
  description: The timer runs, somebody has to confirm on a new connection.
  type: bool
  returned: state is present, leaving or left
rollback:
  description: V(disarmed), V(idle), or V(fired) when the node had already put everything back.
  type: str
  returned: state is confirmed
files:
  description: Files that are ours now.
  type: list
  elements: str
  returned: state is present
ssh_ports:
  description: Where sshd listens.
  type: list
  elements: int
  returned: state is present
controllers:
  description: Addresses that keep ssh, the live one among them.
  type: list
  elements: str
  returned: state is present
default_zone:
  description: firewalld's default zone, which is left alone.
  type: str
  returned: state is present
ports:
  description: What the peers may reach, the port of RoCE among it where it is on.
  type: list
  elements: str
  returned: state is present
ufw:
  description: ufw was taken over, now or earlier.
  type: bool
  returned: state is present
notes:
  description: Warnings, each with C(code) and C(text).
  type: list
  elements: dict
  returned: always
"""


def main() -> None:
    """Read the parameters, call, answer."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "choices": ["present", "confirmed", "reloaded", "off", "leaving", "left"],
                "default": "present",
            },
            "request": {"type": "dict", "default": {}},
            "zone": {"type": "str", "default": "fullmesh"},
            "rollback_seconds": {"type": "int", "default": 60},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    params = cast("FirewallParams", {**module.params, **module.params["request"]})
    firewall = Firewall(params, module.check_mode, make_merged_runner(make_split_runner(module)))
    try:
        result = getattr(firewall, module.params["state"])()
    except (FirewallRefusedError, UndoError) as exc:
        module.fail_json(msg=str(exc))
    for note in firewall.call.notes:
        module.warn("[{code}] {text}".format(**note))
    module.exit_json(notes=firewall.call.notes, diff=firewall.call.diff, **result)


if __name__ == "__main__":
    main()
