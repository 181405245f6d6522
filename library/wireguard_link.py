# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage the WireGuard tunnel of a node."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.wireguard import (
    WireGuardError,
    check_tunnel,
    ensure_key,
    install_tunnel,
    stop_tunnel,
)

DOCUMENTATION = r"""
---
module: wireguard_link
short_description: Manage the WireGuard tunnel of a node
description:
  - Makes the node's key, which never leaves it, and returns the public half.
  - Writes the configuration for C(wg-quick), enables and starts its unit, or gives the running interface new peers.
  - Compares the running interface as well, so that a change of it is found and corrected.
  - Interfaces with other names are never changed.
options:
  state:
    description:
      - V(key) makes the key if there is none. V(present) configures the tunnel. V(checked) waits until all O(peers)
        answer. V(absent) stops the unit and disables it.
    type: str
    choices: [key, present, checked, absent]
    required: true
  interface:
    description: The interface of the tunnel.
    type: str
    required: true
  address:
    description: The node's address in the tunnel, with the prefix of its network.
    type: str
    default: ''
  port:
    description: The UDP port on which the node receives.
    type: int
    default: 0
  nic:
    description: The interface that carries the tunnel. Its MTU decides that of the tunnel.
    type: str
    default: ''
  peers:
    description: The other nodes of this run.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name, for a comment.
        type: str
        required: true
      public_key:
        description: Its public key.
        type: str
        required: true
      address:
        description: Its address in the tunnel. It may use no other one.
        type: str
        required: true
      endpoint:
        description: Address and UDP port of its link.
        type: str
        required: true
  keep:
    description: Addresses in the tunnel of nodes that are not in this run, but stay peers.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports the changes, on a new machine too. Does not wait for peers.
    support: full
  diff_mode:
    description: The configuration without the private key.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Make the key of the node
  wireguard_link:
    state: key
    interface: fullmesh-wg
"""

RETURN = r"""
public_key:
  description: The node's public key, or empty if it has none yet.
  type: str
  returned: with state=key
needs_packages:
  description: Whether a program is missing. Nothing else was done then.
  type: bool
  returned: with state=key
userspace:
  description: Whether the kernel has no WireGuard, so that wireguard-go is needed.
  type: bool
  returned: with state=key
steps:
  description: The steps of systemctl that the unit needed.
  type: list
  elements: str
  returned: with state=present
"""


def main() -> None:
    """Read the parameters, run the state, return the result."""
    text: dict[str, object] = {"type": "str", "required": True}
    peer: dict[str, object] = dict.fromkeys(("name", "address", "endpoint"), text)
    # a public key is no secret
    peer["public_key"] = {"type": "str", "required": True, "no_log": False}
    spec: dict[str, object] = {
        "state": {
            "type": "str",
            "choices": ["key", "present", "checked", "absent"],
            "required": True,
        },
        "interface": text,
        "address": {"type": "str", "default": ""},
        "port": {"type": "int", "default": 0},
        "nic": {"type": "str", "default": ""},
        "peers": {"type": "list", "elements": "dict", "default": [], "options": peer},
        "keep": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params, run, check = module.params, make_split_runner(module), module.check_mode
    try:
        if params["state"] == "key":
            module.exit_json(**ensure_key(params, run, check))
        if params["state"] == "present":
            module.exit_json(**install_tunnel(params, run, check))
        if params["state"] == "absent":
            module.exit_json(changed=stop_tunnel(params["interface"], run, check))
        if not check:
            check_tunnel(params, run)
    except WireGuardError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        step = "make the folder writable"
        module.fail_json(msg=f"[WG-104] /etc/wireguard cannot be written: {error}. Fix: {step}.")
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
