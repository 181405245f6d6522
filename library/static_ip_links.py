# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Give the cluster interfaces their addresses through whoever owns them, and read them back."""

import glob
import json
import os
import re
import shutil
import socket
import struct
import tempfile
import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

try:
    from ansible.module_utils import fullmesh_static_ip as text
except ImportError:  # unit tests import it by its plain name
    import fullmesh_static_ip as text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Entry = dict[str, Any]
    Runner = Callable[[list[str]], tuple[int, str, str]]

DOCUMENTATION = r"""
---
module: static_ip_links
short_description: Give interfaces static addresses through NetworkManager or netplan, and read them back
description:
  - Finds out who owns each interface, writes one keyfile an interface or one netplan file, applies it,
    and waits until the kernel shows addresses, MTU and routes.
  - An interface that is already as wanted is adopted; its connections are not interrupted.
  - A file that the owner refuses does not stay on disk.
options:
  links:
    description: The links of the cluster plan (C(interface), C(addresses), C(mac), C(mtu) ...).
    type: list
    elements: dict
    default: []
  state:
    description: V(verified) only reads back. V(absent) removes all files of ours and gives the interfaces back.
    type: str
    choices: [present, verified, absent]
    default: present
  provider:
    description: Who shall own the interfaces; V(auto) asks the node.
    type: str
    choices: [auto, networkmanager, netplan]
    default: auto
  check_duplicates:
    description: Ask the link for a duplicate of each new IPv4 address first (RFC 5227).
    type: bool
    default: true
  wait_seconds:
    description: How long an address may take to be there and checked for duplicates.
    type: int
    default: 30
  original:
    description: Only with V(absent). What undo_point remembered of the interfaces at run time.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Detects, renders, validates for netplan, and writes nothing.
    support: full
  diff_mode:
    description: The files, and what the kernel lacks.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Give the links their addresses
  static_ip_links:
    links: "{{ static_ip_links }}"
  register: __static_ip_applied
"""

RETURN = r"""
providers:
  description: Who owns each interface.
  type: dict
  returned: always
files:
  description: The files of ours that stand, or would stand, on the node.
  type: list
  elements: str
  returned: always
adopted:
  description: Interfaces that were as wanted before; only the files were written.
  type: list
  elements: str
  returned: state is present
lacking:
  description: What the kernel lacked before, in words.
  type: list
  elements: str
  returned: state is not absent
"""

ETHERNET = "1"  # ARPHRD_ETHER, linux/if_arp.h
POLL_SECONDS = 0.3
PROBE_SECONDS = (
    0.5  # a probe and its repetition; RFC 5227 2.1.1 allows 1-2 s, a rack answers in milliseconds
)


class LinkError(Exception):
    """A coded sentence for the user."""


class Node:
    """The machine: a root directory and a way to run commands, so that tests bring their own."""

    def __init__(self, run: "Runner", root: str = "") -> None:
        self.run = run
        self.root = root

    def read(self, path: str) -> str:
        """Return a file's text, empty where there is none."""
        try:
            with open(self.root + path) as stream:
                return stream.read()
        except OSError:
            return ""

    def links(self) -> "dict[str, Entry]":
        """Ask the kernel for its interfaces."""
        links: dict[str, Entry] = text.parse_links(self.run(["ip", "-j", "addr", "show"])[1])
        return links

    def routes(self) -> "list[dict[str, str]]":
        """Ask the kernel for its routes, both families."""
        found: list[dict[str, str]] = []
        for family in ("-4", "-6"):
            found += text.parse_routes(self.run(["ip", "-j", family, "route", "show"])[1])
        return found

    def lacking(self, links: "list[Entry]") -> "list[str]":
        """Say what the kernel lacks of all links."""
        seen = self.links()
        # Two commands less where nobody asked for a route.
        routes = self.routes() if any(text.wanted_routes(link) for link in links) else []
        return [fault for link in links for fault in text.lacks(link, seen, routes)]


# --- who owns an interface --------------------------------------------------------------------


def network_manager_state(node: Node, interface: str) -> str:
    """NetworkManager's word for a device, empty where it does not run."""
    rc, out, _ = node.run(
        ["nmcli", "--terse", "--get-values", "GENERAL.STATE", "device", "show", interface]
    )
    # "100 (connected)", "100 (connected (externally))", "10 (unmanaged)": the number is the stable part
    return out.strip() if rc == 0 else ""


def networkd_file(node: Node, interface: str) -> str:
    """The .network file that systemd-networkd uses for an interface, empty for none."""
    index = node.read("/sys/class/net/" + interface + "/ifindex").strip()
    for line in node.read("/run/systemd/netif/links/" + index).splitlines():
        if line.startswith("NETWORK_FILE="):
            return line.split("=", 1)[1]
    return ""


def unsupported(node: Node, interface: str) -> str:
    """Say why neither backend may write this interface down as plain Ethernet."""
    base = "/sys/class/net/" + interface
    for part in ("bonding", "bridge"):
        if os.path.isdir(node.root + base + "/" + part):
            return "it is a " + {"bonding": "bond", "bridge": "bridge"}[part]
    if os.path.exists(node.root + "/proc/net/vlan/" + interface):
        return "it is a VLAN"
    kind = node.read(base + "/type").strip()
    if kind != ETHERNET:
        return "it is no Ethernet interface (ARPHRD type %s)" % kind
    for path in glob.glob(node.root + "/etc/network/interfaces*"):
        for line in node.read(path[len(node.root) :]).splitlines():
            if line.split()[:2] == ["iface", interface]:
                return "ifupdown owns it (%s)" % path[len(node.root) :]
    return ""


def detect(node: Node, interface: str) -> str:
    """Name the provider of an interface, or say why there is none."""
    state = network_manager_state(node, interface)
    if state and not state.startswith("10 "):
        return "networkmanager"
    if node.run(["netplan", "info"])[0] != 0:
        hint = (
            "NetworkManager runs, but is told not to manage it"
            if state
            else "neither NetworkManager nor netplan runs here"
        )
        raise LinkError(
            "[IP-102] nobody can configure %s: %s. Install and start one of them (see `nmcli device`), "
            "or configure the address yourself and set static_ip_manage: false." % (interface, hint)
        )
    native = networkd_file(node, interface)
    if native and not native.startswith("/run/systemd/network/"):
        raise LinkError(
            "[IP-103] %s is owned by systemd-networkd through %s, which netplan did not write and would lose to. "
            "Remove that file, or put the address there and set static_ip_manage: false."
            % (interface, native)
        )
    return "netplan"


def refuse_missing(links: "list[Entry]", seen: "dict[str, Entry]") -> None:
    """Refuse an interface that is not there."""
    for link in links:
        if link["interface"] not in seen:
            raise LinkError(
                "[IP-101] there is no interface %r; this node has %s. "
                "Set fullmesh_interface to one of them, or to its MAC."
                % (link["interface"], ", ".join(sorted(seen)))
            )


def providers(node: Node, links: "list[Entry]", wanted: str) -> "dict[str, str]":
    """Name the provider of each link; refuse what neither may write down."""
    result = {}
    for link in links:
        name = link["interface"]
        why = unsupported(node, name)
        if why:
            raise LinkError(
                "[IP-103] %s cannot be configured by Fullmesh: %s. "
                "Give it its address with your own tool and set static_ip_manage: false."
                % (name, why)
            )
        result[name] = detect(node, name) if wanted == "auto" else wanted
    return result


# --- what must not be done --------------------------------------------------------------------


def ssh_server() -> str:
    """The address that our own connection came in on; sudo drops the variable, its parents keep it."""
    pid, connection = os.getppid(), os.environ.get("SSH_CONNECTION", "")
    while not connection and pid > 1:
        try:
            with open("/proc/%d/environ" % pid, "rb") as stream:
                pairs = stream.read().decode("utf-8", "replace").split("\0")
            with open("/proc/%d/stat" % pid) as stream:
                pid = int(stream.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            break
        found = [pair.split("=", 1)[1] for pair in pairs if pair.startswith("SSH_CONNECTION=")]
        connection = found[0] if found else ""
    server: str = text.plain_server(connection)
    return server


def refuse_cut_off(links: "list[Entry]", seen: "dict[str, Entry]", server: str) -> None:
    """Refuse to take away the address that we came in on."""
    for link in links:
        if text.cuts_off(link, server, seen):
            raise LinkError(
                "[IP-104] %s carries our own ssh connection (to %s) and would get %s instead: we would be locked out. "
                "Add that address to the link, manage the node over another interface, "
                "or set the address on the console and static_ip_manage: false."
                % (link["interface"], server, ", ".join(link["addresses"]))
            )


def arp_probe(source: bytes, address: str) -> bytes:
    """An Ethernet frame that asks who has *address* without claiming it (RFC 5227 2.1.1)."""
    head = b"\xff" * 6 + source + struct.pack("!H", 0x0806)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
    return head + body + source + b"\0" * 4 + b"\0" * 6 + socket.inet_aton(address)


def arp_owner(frame: bytes, source: bytes, address: str) -> str:
    """The MAC of another host that uses *address*, from an ARP frame; empty for none."""
    if len(frame) < 42 or frame[12:14] != b"\x08\x06":  # noqa: PLR2004 (14 bytes Ethernet, 28 ARP)
        return ""
    sender, sender_address = frame[22:28], frame[28:32]
    if sender == source or sender_address != socket.inet_aton(address):
        return ""
    return ":".join("%02x" % byte for byte in sender)


def duplicate_of(interface: str, mac: str, address: str) -> str:
    """Ask the link whether another host uses *address*; its MAC, or empty."""
    source = bytes.fromhex(mac.replace(":", ""))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as link:
        link.bind((interface, 0))
        for _ in range(2):
            link.send(arp_probe(source, address))
            end = time.monotonic() + PROBE_SECONDS
            while time.monotonic() < end:
                link.settimeout(max(end - time.monotonic(), 0.001))
                try:
                    owner = arp_owner(link.recv(2048), source, address)
                except socket.timeout:
                    break
                if owner:
                    return owner
    return ""


def refuse_duplicates(links: "list[Entry]", seen: "dict[str, Entry]", fresh: bool) -> None:
    """Probe the IPv4 addresses that are not ours yet (*fresh*), or those that are; IPv6 is the kernel's job."""
    for link in links:
        state = seen[link["interface"]]
        have = {one["address"] for one in state["addresses"]}
        for value in text.of_family(link["addresses"], 4):
            address = value.split("/")[0]
            if not state["up"] or fresh == (value in have):
                continue
            owner = duplicate_of(link["interface"], state["mac"], address)
            if owner:
                raise LinkError(
                    "[IP-105] %s is already used on the link of %s by the host with MAC %s. "
                    "Give this node another address, or take it from that host."
                    % (address, link["interface"], owner)
                )


# --- files ------------------------------------------------------------------------------------


def wanted_files(links: "list[Entry]", owners: "dict[str, str]") -> "dict[str, str]":
    """Render what shall stand on the node: {path: content}."""
    files = {
        text.keyfile_path(link["interface"]): text.keyfile(link)
        for link in links
        if owners[link["interface"]] == "networkmanager"
    }
    planned = [link for link in links if owners[link["interface"]] == "netplan"]
    if planned:
        files[text.NETPLAN] = text.netplan(planned)
    return files


def present_files(node: Node) -> "dict[str, str]":
    """The files of ours that stand there now."""
    paths = glob.glob(node.root + text.KEYFILES + "/" + text.NAME + "*.nmconnection")
    paths += glob.glob(node.root + text.NETPLAN)
    return {path[len(node.root) :]: node.read(path[len(node.root) :]) for path in sorted(paths)}


def replace_files(node: Node, old: "dict[str, str]", new: "dict[str, str]") -> None:
    """Make *old* into *new*; every file 0600: NetworkManager ignores a keyfile that others can read."""
    for path in sorted(set(old) - set(new)):
        os.unlink(node.root + path)
    for path, content in new.items():
        if old.get(path) == content and os.stat(node.root + path).st_mode & 0o777 == 0o600:  # noqa: PLR2004 (mode)
            continue
        directory = os.path.dirname(node.root + path)
        if not os.path.isdir(directory):
            os.makedirs(directory, 0o755)
        handle, temporary = tempfile.mkstemp(prefix=".fullmesh-", dir=directory)
        with os.fdopen(handle, "w") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, node.root + path)


def validate_netplan(node: Node, content: str) -> None:
    """Let netplan read our file together with the others, in a directory of its own."""
    scratch = tempfile.mkdtemp(prefix="fullmesh-netplan-")
    try:
        for place in ("/usr/lib/netplan", "/lib/netplan", "/etc/netplan", "/run/netplan"):
            os.makedirs(scratch + place, 0o700, exist_ok=True)
            for path in glob.glob(node.root + place + "/*.yaml"):
                shutil.copy(path, scratch + place)
        with open(scratch + text.NETPLAN, "w") as stream:
            stream.write(content)
        os.chmod(scratch + text.NETPLAN, 0o600)
        rc, out, err = node.run(["netplan", "generate", "--root-dir", scratch])
    finally:
        shutil.rmtree(scratch)
    if rc != 0:
        raise LinkError(
            "[IP-106] netplan refuses the links, nothing was written: %s. "
            "Mend the links, or the file in /etc/netplan that it names."
            % (err or out).strip().replace(scratch, "")
        )


# --- apply ------------------------------------------------------------------------------------


def must(node: Node, command: "list[str]") -> None:
    """Run a command that has to succeed."""
    rc, out, err = node.run(command)
    if rc != 0:
        raise LinkError("%s: rc %d: %s" % (" ".join(command), rc, (err or out).strip()))


def apply(node: Node, owners: "dict[str, str]", links: "list[Entry]", wait: int) -> None:
    """Hand the interfaces of *links* to the files that stand there now; *links* may be empty (adoption)."""
    managed = sorted(name for name, owner in owners.items() if owner == "networkmanager")
    planned = sorted(name for name, owner in owners.items() if owner == "netplan")
    touched = {link["interface"] for link in links}
    if managed:
        must(node, ["nmcli", "connection", "load"] + [text.keyfile_path(name) for name in managed])
    for name in managed:
        if name in touched:
            must(
                node,
                [
                    "nmcli",
                    "--wait",
                    str(wait),
                    "connection",
                    "up",
                    "uuid",
                    text.profile_uuid(name),
                    "ifname",
                    name,
                ],
            )
    if planned:
        apply_netplan(node, [name for name in planned if name in touched])


def apply_netplan(node: Node, names: "list[str]") -> None:
    """Like `netplan apply`, but for our interfaces only: that one reconfigures eth0 as well."""
    must(node, ["netplan", "generate"])
    if node.run(["systemctl", "is-active", "--quiet", "systemd-networkd.service"])[0] != 0:
        must(node, ["netplan", "apply"])
        return
    must(node, ["networkctl", "reload"])
    if names:
        must(node, ["networkctl", "reconfigure", *names])


def wait_for(node: Node, links: "list[Entry]", seconds: int) -> "list[str]":
    """Wait until the kernel lacks nothing; return what it lacks at the deadline."""
    end = time.monotonic() + seconds
    while True:
        faults = node.lacking(links)
        if not faults or time.monotonic() >= end:
            return faults
        time.sleep(POLL_SECONDS)


def refuse_lacking(faults: "list[str]", seconds: int) -> None:
    """Name the value that was read back."""
    if faults:
        raise LinkError(
            "[IP-107] the interfaces are not as wanted after %d s: %s. "
            "See `nmcli device`, `networkctl status` and `journalctl -b` on the node."
            % (seconds, "; ".join(faults))
        )


def file_diff(
    old: "dict[str, str]", new: "dict[str, str]", faults: "list[str]"
) -> "list[dict[str, str]]":
    """One entry a file that differs, and one for the kernel."""
    paths = [path for path in sorted(set(old) | set(new)) if old.get(path) != new.get(path)]
    diff = [
        {
            "before": old.get(path, ""),
            "after": new.get(path, ""),
            "before_header": path,
            "after_header": path,
        }
        for path in paths
    ]
    if faults:
        head = "the kernel's view"
        diff.append(
            {
                "before": "\n".join(faults) + "\n",
                "after": "",
                "before_header": head,
                "after_header": head,
            }
        )
    return diff


class Links:
    """One call of the module."""

    def __init__(self, node: Node, params: "Entry", check: bool) -> None:
        self.node = node
        self.links: list[Entry] = params["links"]
        self.params = params
        self.check = check

    def present(self) -> "Entry":
        """Write, apply, read back."""
        seen = self.node.links()
        refuse_missing(self.links, seen)
        faulty = [link for link in self.links if self.node.lacking([link])]
        refuse_cut_off(faulty, seen, ssh_server())
        owners = providers(self.node, self.links, self.params["provider"])
        if self.params["check_duplicates"]:
            refuse_duplicates(faulty, seen, fresh=True)
        old, new = present_files(self.node), wanted_files(self.links, owners)
        if old.get(text.NETPLAN) != new.get(text.NETPLAN) and text.NETPLAN in new:
            validate_netplan(self.node, new[text.NETPLAN])
        faults = self.node.lacking(faulty)
        changed = bool(faulty) or old != new
        if changed and not self.check:
            self.change(owners, faulty, old, new)
        return {
            "changed": changed,
            "providers": owners,
            "files": sorted(new),
            "adopted": sorted(
                link["interface"] for link in self.links if link not in faulty and old != new
            ),
            "lacking": faults,
            "diff": file_diff(old, new, faults),
        }

    def change(
        self,
        owners: "dict[str, str]",
        faulty: "list[Entry]",
        old: "dict[str, str]",
        new: "dict[str, str]",
    ) -> None:
        """Write, apply, read back; what the owner or the kernel does not take is taken back."""
        seconds = self.params["wait_seconds"]
        replace_files(self.node, old, new)
        try:
            apply(self.node, owners, faulty, seconds)
            refuse_lacking(wait_for(self.node, self.links, seconds), seconds)
            if self.params["check_duplicates"]:
                # an interface that was down could not be asked before
                refuse_duplicates(faulty, self.node.links(), fresh=False)
        except (LinkError, OSError) as exc:
            replace_files(self.node, present_files(self.node), old)
            self.reload(set(old) | set(new), [link["interface"] for link in faulty])
            if str(exc).startswith("["):
                raise
            raise LinkError(
                "[IP-108] the new configuration could not be applied; its files were taken back: "
                "%s. See `journalctl -u NetworkManager -u systemd-networkd` on the node." % exc
            ) from exc

    def reload(self, paths: "set[str]", names: "list[str]") -> None:
        """Let the owners act on the files that stand there now, as well as they can."""
        if any(path.startswith(text.KEYFILES) for path in paths):
            self.node.run(["nmcli", "connection", "reload"])
            for name in names:
                if text.keyfile_path(name) in present_files(self.node):
                    uuid = text.profile_uuid(name)
                    self.node.run(["nmcli", "connection", "up", "uuid", uuid, "ifname", name])
        if text.NETPLAN in paths:
            self.node.run(["netplan", "generate"])
            self.node.run(["networkctl", "reload"])
            if names and text.NETPLAN in present_files(self.node):
                self.node.run(["networkctl", "reconfigure", *names])

    def verified(self) -> "Entry":
        """Only look."""
        faults = self.node.lacking(self.links)
        refuse_lacking(faults, 0)
        return {"changed": False, "providers": {}, "files": [], "adopted": [], "lacking": faults}

    def absent(self) -> "Entry":
        """Remove our files and give the interfaces back as they were at run time."""
        old = present_files(self.node)
        if old and not self.check:
            for path in old:
                if path.startswith(text.KEYFILES):
                    name = path[len(text.KEYFILES) + 1 + len(text.NAME) : -len(".nmconnection")]
                    # takes the profile off the interface and removes the file; fails where it is not loaded
                    self.node.run(
                        ["nmcli", "connection", "delete", "uuid", text.profile_uuid(name)]
                    )
            replace_files(self.node, present_files(self.node), {})
            self.reload(set(old), [])
        moved = self.give_back(written_addresses(old.values()))
        return {
            "changed": bool(old or moved),
            "providers": {},
            "files": [],
            "given_back": moved,
            "diff": file_diff(old, {}, []),
        }

    def give_back(self, ours: "set[str]") -> "list[str]":
        """Put run-time addresses and MTU back: nobody but the kernel knew them."""
        original = self.params["original"] if ours else {}
        steps = []
        seen = self.node.links()
        for name, then in sorted(original.items()):
            if name in seen:
                steps += runtime_steps(name, then, seen[name], ours)
        if not self.check:
            for step in steps:
                self.node.run(step)
        return [" ".join(step) for step in steps]


def written_addresses(contents: "Iterable[str]") -> "set[str]":
    """The addresses in our own files; a route's network is none that an interface could have."""
    return {word for content in contents for word in re.findall(r"[0-9a-fA-F:.]+/[0-9]+", content)}


def runtime_steps(name: str, then: "Entry", now: "Entry", ours: "set[str]") -> "list[list[str]]":
    """The ip commands that make an interface what it was; addresses that are not ours are left alone."""
    have = {one["address"] for one in now["addresses"] if one["scope"] == "global"}
    was = set(then["addresses"])
    steps = [["ip", "addr", "del", value, "dev", name] for value in sorted((have & ours) - was)]
    steps += [["ip", "addr", "add", value, "dev", name] for value in sorted(was - have)]
    if then.get("mtu") and then["mtu"] != now["mtu"]:
        steps.append(["ip", "link", "set", name, "mtu", str(then["mtu"])])
    return steps


def main() -> None:
    """Read the parameters, call, answer."""
    module = AnsibleModule(
        argument_spec={
            "links": {"type": "list", "elements": "dict", "default": []},
            "state": {"choices": ["present", "verified", "absent"], "default": "present"},
            "provider": {"choices": ["auto", "networkmanager", "netplan"], "default": "auto"},
            "check_duplicates": {"type": "bool", "default": True},
            "wait_seconds": {"type": "int", "default": 30},
            "original": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    # C locale: nmcli's words are read here.
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}

    def run(command: "list[str]") -> "tuple[int, str, str]":
        try:
            rc, out, err = module.run_command(command, handle_exceptions=False)
        except OSError as exc:
            return 127, "", str(exc)
        return int(rc), str(out), str(err)

    call = Links(Node(run), module.params, module.check_mode)
    try:
        result = getattr(call, module.params["state"])()
    except (LinkError, OSError, ValueError, KeyError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**json.loads(json.dumps(result)))


if __name__ == "__main__":
    main()
