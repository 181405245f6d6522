"""Handle the cluster's own ssh key between the nodes: the key, the known hosts, and faults in the settings.

Pure: nothing is read or written here. The key is created in the controller's memory and sent to the nodes. It is
never stored on the controller's disk.
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
    "NS-101": "The account for ssh between the nodes cannot work",
    "NS-102": "A node has no ssh host key",
    "NS-103": "The account for ssh between the nodes cannot be created or removed",
    "NS-104": "A node cannot log in to the next one with the cluster's key",
    "NS-105": "The path of the account's keys has something that is not a plain folder or file",
    "NS-106": "A node reports a line that is not a public host key",
}

# useradd's own rule, so that nothing else gets into a command or a file.
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
COMMENT = "fullmesh-cluster"
SSH_PORT, LAST_PORT = 22, 65535


def find_node_ssh_faults(user: Any, port: Any) -> list[Fault]:
    """Return the faults in the settings."""
    found = []
    if not USER.fullmatch(str(user)):
        text = f"node_ssh_user is {user!r}, which is not a user name"
        found.append(Fault("NS-101", text, "Write it like fullmesh or train"))
    elif user == "root":
        text = "node_ssh_user is 'root', which would give a user of one node root on all (and mpirun rejects root)"
        found.append(
            Fault(
                "NS-101",
                text,
                "Name an account for jobs, like fullmesh. The role creates it if missing",
            )
        )
    if not parse_decimal(str(port), LAST_PORT):
        text = f"node_ssh_port is {port!r}, which is not a port"
        found.append(Fault("NS-101", text, "Use sshd's port, such as 22"))
    return found


def generate_private_key() -> str:
    """Generate an ed25519 key in OpenSSH's format, without a passphrase, because jobs start unattended."""
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    ).decode()


def derive_public_key(private: str) -> str:
    """Return the public half of *private* as a line of authorized_keys, without options.

    Raises:
        ValueError: *private* is not a key.
    """
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    form = serialization.PublicFormat.OpenSSH
    raw = key.public_key().public_bytes(serialization.Encoding.OpenSSH, form)
    return f"{raw.decode()} {COMMENT}"


def choose_private_key(plan: ClusterPlan, kept: Mapping[str, str]) -> str:
    """Choose the key for all nodes: the master's, else that of the first node with a key, else a new one.

    Args:
        plan: the cluster plan.
        kept: node -> its private key, or "".
    """
    order = [plan["master"]["node"], *plan["nodes"]]
    for node in order:
        try:
            if kept.get(node) and derive_public_key(kept[node]):
                return kept[node]
        except ValueError:  # a damaged file
            continue
    return generate_private_key()


def render_known_hosts(
    plan: ClusterPlan, keys: Mapping[str, Sequence[str]], port: int = SSH_PORT
) -> str:
    """Render known_hosts with every node's real host keys, under all of its addresses and names.

    Args:
        plan: the cluster plan.
        keys: node -> the lines of its /etc/ssh/ssh_host_*_key.pub, read over the trusted connection.
        port: sshd's port.

    Raises:
        InvalidInputError: a node reports a line that is not a public key. It would be written on all others.
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
                step = f"Check: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on {node}"
                raise InvalidInputError([Fault("NS-106", text, step)])
            lines.append(f"{','.join(written)} {found[1]} {found[2]}")
    return "\n".join(lines) + "\n"


def render_authorized_key(public_key: str, peers: Sequence[str]) -> str:
    """Render the line of authorized_keys: only from the cluster's addresses, and without forwarding."""
    return f'restrict,from="{",".join(peers)}" {public_key}'


def find_next_address(plan: ClusterPlan, name: str) -> str:
    """Return the address of the node after *name* in rank order, so that each node is tested by exactly one other."""
    nodes = list(plan["nodes"])
    return str(plan["nodes"][nodes[(nodes.index(name) + 1) % len(nodes)]]["address"])
