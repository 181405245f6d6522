# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Open exactly the cluster's ports to its peers in firewalld, in one transaction, and prove it in the kernel."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.firewall.peers import Firewall, FirewallRefusedError
from ansible.module_utils.fullmesh.state.errors import UndoError

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
    ssh, as all of C(controllers) do.
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
  mode:
    description:
      - V(peers_range) opens C(ports) to the peers and takes nothing, V(peers_trusted) opens everything to them.
        V(peers_only) opens C(ports) and takes the rest, by a zone that has the peers as its source.
    type: str
    choices: [peers_range, peers_only, peers_trusted]
    default: peers_range
  zone:
    description: Name of that zone, and the start of the names of policies and ipsets; at most 13 characters.
    type: str
    default: fullmesh
  peers:
    description: Addresses of all nodes.
    type: list
    elements: str
    default: []
  controllers:
    description: Addresses and networks that must always reach ssh.
    type: list
    elements: str
    default: []
  ports:
    description: Ports with protocol, such as C(50000-54095/tcp).
    type: list
    elements: str
    default: []
  controller_ports:
    description: Ports of services that C(controllers) may reach besides ssh.
    type: list
    elements: str
    default: []
  public_ports:
    description: Ports of services that everybody may reach.
    type: list
    elements: str
    default: []
  rdma:
    description: V(auto) opens 4791/udp to the peers where a network card does RoCE, V(true) always, V(false) never.
    type: str
    choices: [auto, 'true', 'false']
    default: auto
  ufw:
    description:
      - Where ufw is active. V(carry) takes over and keeps the user's rules in a policy; what cannot be kept is refused.
        V(discard) takes over and only names what cannot be kept. V(refuse) stops.
    type: str
    choices: [carry, discard, refuse]
    default: carry
  start:
    description:
      - Where no firewall ran before, about listeners that the default zone would shut. V(refuse) stops and names them.
        V(carry) opens them to the peers. V(cut) goes on. Both say what is lost.
    type: str
    choices: [refuse, carry, cut]
    default: refuse
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
    peers: [192.0.2.11, 192.0.2.12]
    controllers: [198.51.100.7]
    ports: [29500/tcp, 50000-54095/tcp]
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
    texts: dict[str, object] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "state": {
                "choices": ["present", "confirmed", "reloaded", "off", "leaving", "left"],
                "default": "present",
            },
            "mode": {
                "choices": ["peers_range", "peers_only", "peers_trusted"],
                "default": "peers_range",
            },
            "zone": {"type": "str", "default": "fullmesh"},
            "peers": texts,
            "controllers": texts,
            "ports": texts,
            "controller_ports": texts,
            "public_ports": texts,
            "rdma": {"choices": ["auto", "true", "false"], "default": "auto"},
            "ufw": {"choices": ["carry", "discard", "refuse"], "default": "carry"},
            "start": {"choices": ["refuse", "carry", "cut"], "default": "refuse"},
            "rollback_seconds": {"type": "int", "default": 60},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    firewall = Firewall(
        module.params, module.check_mode, make_merged_runner(make_split_runner(module))
    )
    try:
        result = getattr(firewall, module.params["state"])()
    except (FirewallRefusedError, UndoError) as exc:
        module.fail_json(msg=str(exc))
    for note in firewall.call.notes:
        module.warn("[{code}] {text}".format(**note))
    module.exit_json(notes=firewall.call.notes, diff=firewall.call.diff, **result)


if __name__ == "__main__":
    main()
