# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Send one file from node to node over the cluster's own network."""

from __future__ import annotations

import json
import os
import secrets
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.detach import run_detached
from ansible.module_utils.fullmesh.wheel_share import (
    CONTROL,
    SharedFile,
    fetch_pieces,
    listen_on_free_port,
    serve_pieces,
)

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.torch import (
        BundlePieces,
        WheelShareResult,
        WheelSource,
    )

DOCUMENTATION = r"""
---
module: wheel_share
short_description: Send one file from node to node over the cluster's own network
description:
  - V(started) verifies the present pieces, listens on a data port of the cluster network, and leaves a helper that
    serves verified pieces to clients that know the secret. It ends by itself.
  - V(fetched) fetches the missing pieces from the nodes in C(sources), and checks each with the controller's hash. It
    never fails because of a peer. C(complete) reports whether the file is complete.
  - V(stopped) ends the helper.
options:
  state:
    description: The action of the module.
    type: str
    choices: [started, fetched, stopped]
    required: true
  name:
    description: This node's name, for messages.
    type: str
    default: ''
  path:
    description: The file. An interrupted run leaves its pieces in the same folder, with the suffix C(.part).
    type: path
    required: true
  manifest:
    description: Size of the file, size of a piece, SHA-256 of every piece.
    type: dict
    default: {}
  address:
    description: This node's address in the cluster.
    type: str
    default: ''
  first:
    description: First port that peers may reach.
    type: int
    default: 0
  last:
    description: Last port that peers may reach.
    type: int
    default: 0
  sources:
    description: Nodes to ask, nearest first, each with name, address and port.
    type: list
    elements: dict
    default: []
  secret:
    description: This run's secret.
    type: str
    default: ''
  seconds:
    description: Seconds until the helper ends, or the fetching gives up.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Does nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Share the wheels of this node
  wheel_share:
    state: started
    path: /opt/fullmesh/wheels/bundle.tar
    manifest: {size: 3, piece: 4194304, pieces: ["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"]}
    address: 10.78.0.11
    first: 50000
    last: 54095
    secret: "{{ __secret }}"
"""

RETURN = r"""
port:
  description: This node's port for clients, or 0.
  type: int
  returned: started
why:
  description: Why there is no port.
  type: str
  returned: started
complete:
  description: The whole file is on the node and verified.
  type: bool
  returned: started or fetched
bytes:
  description: Bytes from other nodes.
  type: int
  returned: fetched
from:
  description: The nodes that sent pieces.
  type: list
  elements: str
  returned: fetched
reasons:
  description: Node to the reason that it sent no more.
  type: dict
  returned: fetched
"""


class WheelShareParams(TypedDict):
    """The parameters of wheel_share. DOCUMENTATION explains them."""

    state: str
    name: str
    path: str
    manifest: BundlePieces
    address: str
    first: int
    last: int
    sources: list[WheelSource]
    secret: str
    seconds: int


def start_sharing(params: WheelShareParams) -> WheelShareResult:
    """Verify the present pieces and serve them. A node that cannot listen returns the reason."""
    folder = os.path.dirname(params["path"])
    # Jobs of other users need the folder above, but must not see unfinished files.
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
    store = SharedFile(params["path"], params["manifest"])
    there = store.prepare()
    complete = there == len(store.hashes)
    answer: WheelShareResult = {"changed": False, "complete": complete, "port": 0, "why": ""}
    try:
        listener = listen_on_free_port(params["address"], params["first"], params["last"])
    except OSError as error:
        answer["why"] = f"cannot listen on {params['address']}: {error.strerror}"
        return answer
    token = secrets.token_hex(16)
    control = os.path.join(folder, CONTROL)
    with open(control + ".new", "w") as stream:
        json.dump({"token": token}, stream)
    os.replace(control + ".new", control)
    answer["port"] = listener.getsockname()[1]
    run_detached(
        lambda: serve_pieces(listener, store, params["secret"], token, params["seconds"]),
        keep=[listener.fileno()],
    )
    listener.close()
    return answer


def describe_wheel_fallback(name: str, failed: dict[str, str], why: str) -> str:
    """Return the warning that nodes get the wheels from the controller, which is slower."""
    reasons = [f"{peer}: {reason}" for peer, reason in sorted(failed.items())] + [why or ""]
    said = "; ".join(reason for reason in reasons if reason) or "no node offers them"
    what = (
        "cannot offer the wheels to other nodes"
        if why
        else "could not get the wheels from other nodes"
    )
    return (
        f"[TR-111] {name} {what}: {said}. The controller sends them to each such node. "
        "Check: ./fullmesh diagnose finds the problem between the nodes."
    )


def stop_sharing(params: WheelShareParams) -> None:
    """Remove the control file, which ends the helper within 0.5 s."""
    control = os.path.join(os.path.dirname(params["path"]), CONTROL)
    if os.path.exists(control):
        os.unlink(control)


def main() -> None:
    """Read the parameters, act and return the result."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["started", "fetched", "stopped"], "required": True},
            "name": {"type": "str", "default": ""},
            "path": {"type": "path", "required": True},
            "manifest": {"type": "dict", "default": {}},
            "address": {"type": "str", "default": ""},
            "first": {"type": "int", "default": 0},
            "last": {"type": "int", "default": 0},
            "sources": {"type": "list", "elements": "dict", "default": []},
            "secret": {"type": "str", "default": "", "no_log": True},
            "seconds": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    params: WheelShareParams = module.params
    if module.check_mode:
        module.exit_json(changed=False, complete=False, port=0, why="check mode")
    os.umask(0o022)
    try:
        if params["state"] == "started":
            shared = start_sharing(params)
            if not shared["port"]:
                module.warn(describe_wheel_fallback(params["name"], {}, shared["why"]))
            module.exit_json(**shared)
        if params["state"] == "stopped":
            stop_sharing(params)
            module.exit_json(changed=False)
        store = SharedFile(params["path"], params["manifest"])
        fetched = fetch_pieces(store, params["sources"], params["secret"], params["seconds"])
        if not fetched["complete"]:
            module.warn(describe_wheel_fallback(params["name"], fetched["reasons"], ""))
    except OSError as error:
        module.fail_json(
            msg=f"[TR-105] The wheels cannot be kept in {os.path.dirname(params['path'])}: {error}. "
            "Fix: make room there, or set torch_runtime_path to a larger disk."
        )
    module.exit_json(**fetched)


if __name__ == "__main__":
    main()
