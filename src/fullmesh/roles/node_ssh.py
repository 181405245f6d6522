"""The cluster's own key between the nodes: the key itself, who is known, and what cannot work.

Pure: nothing is read or written here. The key is made in the controller's memory and handed to the nodes; it never
lies on the controller's disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.types import ClusterPlan
from fullmesh.node_values import PUBLIC_KEY

CODES: dict[str, str] = {
    "NS-101": "an account for ssh between the nodes that cannot work",
    "NS-102": "a node has no ssh host key",
    "NS-103": "the account for ssh between the nodes cannot be made or removed",
    "NS-104": "a node cannot log in to the next one with the cluster's key",
    "NS-105": "something that is no plain folder or file is in the way of the account's keys",
    "NS-106": "A node reports a line that is not a public host key",
}

# useradd's own rule, so that nothing else gets into a command or a file.
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
COMMENT = "fullmesh-cluster"
SSH_PORT, LAST_PORT = 22, 65535


def find_node_ssh_faults(user: Any, port: Any) -> list[Fault]:
    """What is wrong with the settings."""
    found = []
    if not USER.fullmatch(str(user)):
        text = f"node_ssh_user is {user!r}, which is no user name"
        found.append(Fault("NS-101", text, "Write it like fullmesh or train"))
    elif user == "root":
        text = "node_ssh_user is 'root': whoever gets into one node would own all, and mpirun refuses root"
        found.append(
            Fault(
                "NS-101", text, "Name an account for jobs, like fullmesh; it is made where missing"
            )
        )
    if not parse_decimal(str(port), LAST_PORT):
        text = f"node_ssh_port is {port!r}, which is no port"
        found.append(Fault("NS-101", text, "Give sshd's port, such as 22"))
    return found


def generate_private_key() -> str:
    """A new ed25519 key, as OpenSSH keeps it, without a passphrase: jobs start with nobody there to type one."""
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    ).decode()


def derive_public_key(private: str) -> str:
    """The public half of *private* as a line of authorized_keys, without options.

    Raises:
        ValueError: when *private* is no key.
    """
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    form = serialization.PublicFormat.OpenSSH
    raw = key.public_key().public_bytes(serialization.Encoding.OpenSSH, form)
    return f"{raw.decode()} {COMMENT}"


def choose_private_key(plan: ClusterPlan, kept: Mapping[str, str]) -> str:
    """The key that all nodes get: the master's, else the first node's that has one, else a new one.

    Args:
        plan: the cluster plan.
        kept: node -> its private key, "" where it has none.
    """
    order = [plan["master"]["node"], *plan["nodes"]]
    for node in order:
        try:
            if kept.get(node) and derive_public_key(kept[node]):
                return kept[node]
        except ValueError:  # a damaged file is no key
            continue
    return generate_private_key()


def render_known_hosts(
    plan: ClusterPlan, keys: Mapping[str, Sequence[str]], port: int = SSH_PORT
) -> str:
    """known_hosts with every node's real host keys, under every address and name of the node.

    Args:
        plan: the cluster plan.
        keys: node -> the lines of its /etc/ssh/ssh_host_*_key.pub, read over the connection that is already trusted.
        port: sshd's port.

    Raises:
        RefusedError: a node reports a line that is no public key; it would be written on all others.
    """
    names = {host["address"]: [str(name) for name in host["names"]] for host in plan["hosts"]}
    lines = []
    for node, entry in plan["nodes"].items():
        linked = [a.partition("/")[0] for link in entry["links"] for a in link["addresses"]]
        known = [entry["address"], *linked, *names.get(entry["address"], []), node]
        written = [one if port == SSH_PORT else f"[{one}]:{port}" for one in dict.fromkeys(known)]
        for key in keys[node]:
            found = PUBLIC_KEY.match(str(key))
            if not found:
                text = f"{node} reports {str(key)[:80]!r} as a host key of its sshd"
                step = f"Look at {node}: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
                raise InvalidInputError([Fault("NS-106", text, step)])
            lines.append(f"{','.join(written)} {found[1]} {found[2]}")
    return "\n".join(lines) + "\n"


def render_authorized_key(public_key: str, peers: Sequence[str]) -> str:
    """The line of authorized_keys: from the cluster's addresses only, and no forwarding of anything."""
    return f'restrict,from="{",".join(peers)}" {public_key}'


def find_next_address(plan: ClusterPlan, name: str) -> str:
    """The address of the node after *name* in the order of ranks: each is asked by one, however many there are."""
    nodes = list(plan["nodes"])
    return str(plan["nodes"][nodes[(nodes.index(name) + 1) % len(nodes)]]["address"])
