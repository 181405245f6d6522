# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Open only the cluster's ports to its peers in firewalld, in one transaction, and verify it in the kernel."""

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
short_description: Open the ports of the cluster's peers in firewalld, as one transaction
description:
  - Writes policies for peers and controllers and their ipsets as separate files, checks them in a copy of the
    configuration, arms a timer that reverts everything, starts or reloads firewalld once, and compares the kernel's
    rules with the files. Established connections survive. Zones, interfaces and the default zone are not changed.
  - A policy only adds. Ports that the zone of an interface or address opens stay open to peers.
  - The client addresses of all ssh sessions that carry the play are taken from the node and always keep ssh, as do
    all controllers of the request.
  - Other rules that would drop the peers' traffic are found in the kernel and reported, before and after.
options:
  state:
    description:
      - V(present) opens the ports. V(confirmed) disarms the timer. V(reloaded) makes a running firewalld read its files
        again. V(off) stops and disables firewalld. V(leaving) and V(left) come before and after an undo. The first arms
        a timer that restores the present firewall, and the second must be followed by a confirmation. They enable ufw
        again if V(present) replaced it, and keep other iptables rules when firewalld stops.
    type: str
    choices: [present, confirmed, reloaded, 'off', leaving, left]
    default: present
  request:
    description:
      - The wanted state for V(present). The filter C(peer_firewall_request) makes it from the role's variables.
        C(PeerFirewall) in schema/peer_list.py describes each entry. Its C(zone) and C(rollback_seconds) override
        the options of these names.
    type: dict
    default: {}
  zone:
    description: Name of the zone, and prefix of the names of policies and ipsets, at most 13 characters.
    type: str
    default: fullmesh
  rollback_seconds:
    description:
      - Without a confirmation within this time, the node reverts everything. With 0 no confirmation is needed, but a
        change that fails is still reverted.
    type: int
    default: 60
  token:
    description:
      - The run's token. A confirmation or restore needs the token of the armed change, so that a late run cannot end
        another one's change. The caller chooses it, because the answer to the arming call may get lost.
    type: str
    default: ''
attributes:
  check_mode:
    description: Compares files and starts nothing. On a new node, shows the files that would be written.
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
  description: firewalld is not installed. Call again after its installation and before its first start.
  type: bool
  returned: state is present
armed:
  description: The timer runs, so the change must be confirmed on a new connection.
  type: bool
  returned: state is present, leaving or left
rollback:
  description: V(disarmed), V(idle), or V(fired) if the node had already reverted everything.
  type: str
  returned: state is confirmed
files:
  description: Files that Fullmesh owns now.
  type: list
  elements: str
  returned: state is present
ssh_ports:
  description: The ports that sshd listens on.
  type: list
  elements: int
  returned: state is present
controllers:
  description: Addresses that keep ssh, including the present client.
  type: list
  elements: str
  returned: state is present
default_zone:
  description: firewalld's default zone, which is not changed.
  type: str
  returned: state is present
ports:
  description: The ports that peers may reach, including RoCE's if it is active.
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
    """Read the parameters, call and return the result."""
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
