# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Update a node after a peer joined or left: its firewall's set, its hosts file, its lists, in one call.

The rest of the node is not changed, and the manifest is updated accordingly. The firewall uses the usual transaction:
it is armed here and confirmed on a new connection. Otherwise the node reverts it, the manifest no longer matches, and
the next run configures the node completely.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from . import manifest, name_resolution
from .file_set import (
    apply_file_changes,
    diff_file_change,
    plan_file_changes,
    read_file_state,
    request_text_file,
)
from .firewall.peers import Firewall
from .state.observe import NodeSystem
from .state.undo import record_written_files, remember_state

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .answer import Diff, Note
    from .commands import Runner
    from .file_set import FileRequest
    from .firewall.types import FirewallParams
    from .schema.peer_list import ClusterPeersParams, OwnPeerData, PeerFile, PeerFirewall
    from .state.observe import Names

# Roles whose undo has to know the files written here.
ROLES = ("name_resolution", "peer_firewall", "cluster_env", "launchers")


class ClusterPeersResult(TypedDict):
    """The answer.

    Attributes:
        armed: the change must be confirmed on a new connection.
        paths: files that were or would be written.
        joined: nodes that were unknown on this node.
    """

    changed: bool
    joined: list[str]
    armed: bool
    paths: list[str]
    notes: list[Note]
    diff: list[Diff]


class PeerListError(Exception):
    """A coded sentence for the user."""


def replace_lines(text: str, wanted: dict[str, str]) -> str:
    """Replace the values of some lines. Missing lines are not added."""
    lines = []
    for line in text.splitlines(keepends=True):
        end = "\n" if line.endswith("\n") else ""
        new = [whole for begins, whole in wanted.items() if line.startswith(begins)]
        lines.append(new[0] + end if new else line)
    return "".join(lines)


def list_peer_files(owned: list[str], files: list[PeerFile], own: OwnPeerData) -> list[FileRequest]:
    """Return the files that differ between two lists of nodes, only those that a role has written on this node."""
    found: list[FileRequest] = [
        request_text_file(one["path"], one["content"], read_file_mode(one["path"]))
        for one in files
        if one["path"] in owned
    ]
    for path, lines in own["lines"].items():
        if path in owned:
            text = read_file_state(path)["content"].decode("utf-8", "surrogateescape")
            content = replace_lines(text, lines)
            found.append(request_text_file(path, content, read_file_mode(path)))
    return found


def read_file_mode(path: str) -> str:
    """Return the file's present mode."""
    return "{:04o}".format(read_file_state(path)["mode"] or 0o644)


def remember_role_states(node: NodeSystem, check: bool) -> None:
    """Save the present state for the roles' undo before any change."""
    nothing: Names = {
        "files": [],
        "directories": [],
        "sysctls": [],
        "services": [],
        "packages": [],
        "interfaces": [],
    }
    for role in ROLES:
        remember_state(node, role, nothing, check)


def open_firewall_to_peers(
    asked: PeerFirewall, token: str, check: bool, run: Runner
) -> ClusterPeersResult:
    """Configure the firewall as role peer_firewall does.

    Raises:
        FirewallRefusedError: with its coded sentences.
        PeerListError: firewalld is gone.
    """
    params: FirewallParams = {**asked, "state": "present", "token": token}
    firewall = Firewall(params, check, run)
    opened = firewall.present()
    if opened["needs_package"]:
        raise PeerListError(
            "[PF-180] firewalld is not installed any more, so it cannot be opened to peers. Fix: run site.yml with "
            "-e fullmesh_converge=always, which configures the node from the start."
        )
    return {
        "changed": opened["changed"],
        "joined": [],
        "armed": opened["armed"],
        "paths": [],
        "notes": firewall.call.notes,
        "diff": firewall.call.diff,
    }


def update_peer_list(
    module: AnsibleModule, want: ClusterPeersParams, run: Runner
) -> ClusterPeersResult:
    """Write the list of peers to all files that have it.

    Raises:
        PeerListError: the node was never configured, or firewalld is gone.
    """
    shared, own = want["shared"], want["own"]
    check = module.check_mode
    held, why = manifest.load_manifest()
    if held is None:
        raise PeerListError(
            f"[MF-180] The list of nodes cannot be sent to a node that was never configured: {why}. Fix: run site.yml "
            "with -e fullmesh_converge=always, which configures the node from the start."
        )
    node = NodeSystem("/", lambda command: (*run(command), ""))
    remember_role_states(node, check)
    result: ClusterPeersResult = {
        "changed": False,
        "joined": [],
        "armed": False,
        "paths": [],
        "notes": [],
        "diff": [],
    }
    for asked in own["firewall"]:
        result = open_firewall_to_peers(asked, want["token"], check, run)
    known = held.get("members", {}).get("nodes", [])
    result["joined"] = [name for name in shared["members"]["nodes"] if name not in known]
    owned = held["owned"]["files"]
    if name_resolution.HOSTS in owned:
        names = name_resolution.configure_hosts_file(
            {
                "hosts": shared["hosts"],
                "address": own["address"],
                "own_names": own["own_names"],
            },
            check,
        )
        if names["changed"]:
            result["paths"].append(name_resolution.HOSTS)
            result["diff"].append(names["diff"])
    steps = plan_file_changes(list_peer_files(owned, shared["files"], own), [])
    if not check:
        apply_file_changes(module, [], steps)
    result["paths"] += [step["path"] for step in steps]
    result["diff"] += [diff_file_change(step) for step in steps]
    result["changed"] = result["changed"] or bool(result["paths"])
    if not check:
        for role in ROLES:
            record_written_files(node, role, check)
        ours = {*result["paths"], *want["also"]}
        written = [path for path in owned if path in ours or "/firewalld/" in path]
        now = manifest.observe_owned(held["owned"])
        manifest.write_manifest(manifest.merge_peer_update(held, now, written, shared["members"]))
    return result
