# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Render links as one netplan file (netplan(5)) for systemd-networkd. Standard library only."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

from ...files import SPACE, split_whole_lines, split_words
from . import common, kernel_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...commands import SplitRunner
    from ..types import Changes, Files, LinkSettings, OwnerState
    from .common import Commands, Lister, Reader

NAME = "netplan"
PATH = "/etc/netplan/90-fullmesh.yaml"
OURS = [PATH]
PLACES = ("/usr/lib/netplan", "/lib/netplan", "/etc/netplan", "/run/netplan")
READS = [place + "/*.yaml" for place in PLACES]
# netplan's words for the kernel's options of a bond
BOND_KEYS = {
    "mode": "mode",
    "miimon": "mii-monitor-interval",
    "updelay": "up-delay",
    "downdelay": "down-delay",
    "lacp_rate": "lacp-rate",
    "xmit_hash_policy": "transmit-hash-policy",
    "ad_select": "ad-select",
    "primary": "primary",
}
# Keys of an entry that stay active, because netplan merges them with Fullmesh's entry: they identify the interface or
# set its own properties (netplan-yaml(5)).
STAYING = """
    match set-name wakeonlan macaddress emit-lldp auth link infiniband-mode ipv6-address-generation
    receive-checksum-offload transmit-checksum-offload tcp-segmentation-offload tcp6-segmentation-offload
    generic-segmentation-offload generic-receive-offload large-receive-offload
    virtual-function-count embedded-switch-mode delay-virtual-functions-rebind
"""
CARRIED = frozenset(split_words(STAYING))
NOTHING: frozenset[str] = frozenset()
LEASE = (
    "route-metric use-dns use-domains use-hostname use-mtu use-ntp use-routes send-hostname=true"
)
# The parts of an entry that a link of the plan covers: addressing, and options of leases that the node no longer
# requests. In the format of `common.find_lost_settings`, with keys of the entry as sections.
COVERED = {
    "": """
        addresses dhcp4 dhcp6 dhcp-identifier dhcp4-overrides dhcp6-overrides ra-overrides accept-ra link-local
        gateway4 gateway6 routes nameservers mtu optional optional-addresses ipv6-privacy renderer=networkd
    """,
    "addresses": "",
    "nameservers": "addresses search",
    "routes": "to via metric on-link type=unicast scope table=254",
    "dhcp4-overrides": LEASE,
    "dhcp6-overrides": LEASE,
    "ra-overrides": "use-dns use-domains",
    "parameters": " ".join(BOND_KEYS.values()),
}
# Keys that make an entry of such a section a bond or a VLAN. A link is never a bridge.
OF_KIND = {"ethernets": "", "bonds": " interfaces parameters", "vlans": " id link"}
# A comment, unless quotes hide it. A key below a key of an entry. An alias that replaces content.
COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')|(?:^|(?<=[ \t]))#[^\n]*""", re.MULTILINE)
INNER_KEY = re.compile(
    r"""(?:^|[\s{,\[])(?:["']([\w<-]+)["'][ \t]*:|([\w<?-]*[\w<?])[ \t]*:(?=\s|$))[ \t]*([^,}\]\n]*)""",
    re.ASCII,
)
ALIAS = re.compile(r"(?:^|[\s{,\[])([*][^\s,\]}]+)", re.ASCII)
# YAML 1.1 ends a line at these as well (5.4), and no editor does.
OTHER_BREAKS = re.compile("[\x85\u2028\u2029]|\r(?!\n)")


def build_files(links: list[LinkSettings]) -> Files:
    """Return Fullmesh's complete file for all links."""
    return {PATH: render_netplan(links)} if links else {}


def get_file_mode(path: str) -> int:
    """Return the mode. Netplan warns about files that others can read."""
    return 0o600


def render_netplan(links: list[LinkSettings]) -> str:
    """Render all links. netplan merges them with other files by the interface's name."""
    sections: dict[str, list[str]] = {"ethernets": [], "bonds": [], "vlans": []}
    for link in links:
        kind = (
            "bonds" if common.get_bond(link) else "vlans" if common.get_vlan(link) else "ethernets"
        )
        lines = render_netplan_device(link) + render_netplan_link(link)
        sections[kind] += [quote_yaml(link["interface"]) + ":"] + ["  " + line for line in lines]
    for name in common.map_bond_members(links):
        lines = [*render_no_autoconf(), "link-local: []"]
        sections["ethernets"] += [quote_yaml(name) + ":"] + ["  " + line for line in lines]
    for name in common.list_bare_parents(links):
        # A VLAN's parent must be defined, and its settings in other files stay. Without another file, addresses that
        # were set by hand stay as well (critical is networkd's KeepConfiguration). Otherwise networkd would remove
        # them.
        alone = [one for one in links if common.get_vlan(one).get("parent") == name]
        body = "{critical: true}" if any(one.get("alone") for one in alone) else "{}"
        sections["ethernets"].append(quote_yaml(name) + ": " + body)
    text = ["network:", "  version: 2"]
    for kind, lines in sections.items():
        text += ["  " + kind + ":"] + ["    " + line for line in lines] if lines else []
    return common.HEAD + "\n".join(text) + "\n"


def render_no_autoconf() -> list[str]:
    """Render settings for all links. optional: a boot must not wait two minutes for an unplugged cluster cable."""
    return ["optional: true", "dhcp4: false", "dhcp6: false", "accept-ra: false"]


def render_netplan_device(link: LinkSettings) -> list[str]:
    """Return the lines that define a bond or VLAN."""
    vlan, bond = common.get_vlan(link), common.get_bond(link)
    if vlan:
        return ["id: " + str(vlan["id"]), "link: " + quote_yaml(vlan["parent"])]
    if bond:
        lines = ["interfaces: " + render_flow_list(bond["members"]), "parameters:"]
        for key, value in common.list_bond_options(link):
            lines.append("  " + BOND_KEYS[key] + ": " + quote_yaml(value))
        return lines
    return []


def render_netplan_link(link: LinkSettings) -> list[str]:
    """Return the lines that every kind of interface has."""
    lines = []
    if link.get("mac"):
        lines.append("match: {macaddress: " + quote_yaml(link["mac"]) + "}")
    lines += [*render_no_autoconf(), "link-local: [ipv6]"]
    lines += ["addresses: " + render_flow_list(link["addresses"])] if link["addresses"] else []
    if link.get("mtu"):
        lines.append("mtu: " + str(link["mtu"]))
    if link.get("dns") or link.get("search"):
        lines.append("nameservers:")
        for key, values in (("addresses", link.get("dns")), ("search", link.get("search"))):
            lines += ["  " + key + ": " + render_flow_list(values)] if values else []
    routes = [
        "{to: " + quote_yaml(r["to"]) + ", via: " + quote_yaml(r["via"]) + "}"
        for r in common.wanted_routes(link)
    ]
    rail = common.get_rail_table(link)
    if rail:
        to, source = quote_yaml(rail.network), quote_yaml(rail.source)
        routes.append(f"{{to: {to}, scope: link, from: {source}, table: {rail.number}}}")
    if routes:
        lines += ["routes:", *("  - " + one for one in routes)]
    if rail:
        rule = f"{{from: {source}, table: {rail.number}, priority: {rail.number}}}"
        lines += ["routing-policy:", "  - " + rule]
    return lines


def quote_yaml(text: str) -> str:
    """Quote a YAML text like a JSON text."""
    return json.dumps(str(text))


def render_flow_list(values: Iterable[str]) -> str:
    """Render a YAML flow list."""
    return "[" + ", ".join(quote_yaml(value) for value in values) + "]"


# --- files of others --------------------------------------------------------------------------


def is_known_to_netplan(read: Reader, listed: Lister, interface: str) -> bool:
    """Return whether another netplan file has an entry for *interface*."""
    texts = [read(path) for pattern in READS for path in listed(pattern) if path != PATH]
    macs = common.read_permanent_macs(read, [interface])
    return any(
        re.search(rf"(?<![\w.-]){re.escape(interface)}(?![\w.-])", text, re.ASCII)
        or any(mac in text.lower() for mac in macs)
        or re.search(r"name:\s*[\"']?[a-z]*\*", text, re.ASCII)
        for text in texts
    )


def find_foreign_changes(read: Reader, listed: Lister, links: list[LinkSettings]) -> Changes:
    """Remove settings except the identity from foreign entries of Fullmesh's interfaces, which netplan would merge.

    Raises:
        ForeignError: a file has one of the interfaces in a form that cannot be edited by line (YAML in one line).
    """
    nics = {
        name: common.read_permanent_macs(read, [name])
        for name in common.list_physical_interfaces(links)
    }
    changes: Changes = {}
    for path in listed("/etc/netplan/*.yaml"):
        text = read(path)
        if path == PATH or text.startswith(common.HEAD):
            continue
        without = strip_entries(text, nics, common.list_affected_interfaces(links), path)
        if without != text:
            changes[path] = without
    changes.update(common.disable_cloud_init(read, changes))
    return changes


def measure_indent(line: str) -> int:
    """Return a line's indentation, -1 for a blank line or a comment."""
    word = line.strip(SPACE)
    return -1 if not word or word.startswith("#") else len(line) - len(line.lstrip(" "))


def find_block_end(lines: list[str], start: int) -> int:
    """Return the line after the block that *start* opens."""
    depth, last = measure_indent(lines[start]), start
    for number in range(start + 1, len(lines)):
        indent = measure_indent(lines[number])
        if indent < 0:
            continue
        # a list may have the same indentation as its key
        if indent < depth or (indent == depth and not lines[number].lstrip(SPACE).startswith("- ")):
            break
        last = number
    return last + 1


def list_child_keys(lines: list[str], start: int, end: int) -> list[tuple[int, str, str]]:
    """Return the direct child keys of a block: (line, key, rest of the line)."""
    found: list[tuple[int, str, str]] = []
    depth = -1
    for number in range(start + 1, end):
        indent = measure_indent(lines[number])
        if indent < 0:
            continue
        depth = indent if depth < 0 else depth
        matched = re.match(
            r"\s*([\"']?)([^\"'#\s][^\"']*?)\1\s*:(?:\s+(.*))?$",
            lines[number].rstrip(SPACE),
            re.ASCII,
        )
        if indent == depth and matched:
            found.append((number, matched.group(2), (matched.group(3) or "").strip(SPACE)))
    return found


def strip_entries(text: str, nics: dict[str, set[str]], names: list[str], path: str) -> str:
    """Return the file without the addresses of Fullmesh's interfaces and every other byte unchanged."""
    edit = NetplanEdit(split_whole_lines(text), nics, names, path)
    edit.mark_lines()
    if edit.out and OTHER_BREAKS.search(text):
        edit.refuse()
    return edit.text()


def strip_yaml_comments(text: str) -> str:
    """Return YAML text without its comments."""
    return COMMENT.sub(lambda found: found.group(1) or "", text)


def parse_entry_settings(key: str, block: str) -> list[common.Setting]:
    """Parse one key of an entry: itself, and its child keys if the plan does not cover all of them.

    Args:
        key: of the entry.
        block: the text after its colon and below it, without comments.
    """
    found: list[common.Setting] = [("", key, block.strip(SPACE))]
    found += [(key, "alias", one) for one in ALIAS.findall(block)]
    if key in COVERED:
        inner = (match.groups() for match in INNER_KEY.finditer(block))
        found += [(key, quoted or plain, value.strip(" \t\"'")) for quoted, plain, value in inner]
    return found


def parse_flow_mapping(text: str) -> list[tuple[str, str]]:
    """Split a flow mapping into keys and values. Values are not parsed further."""
    parts, depth, quote = [""], 0, ""
    for character in text.strip(SPACE)[1:]:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "{[") - (character in "]}")
        if depth < 0:
            break
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    pairs = (part.strip(SPACE).partition(":") for part in parts if part.strip(SPACE))
    return [(key.strip(" \t\n\"'"), value) for key, _, value in pairs]


class NetplanEdit:
    """Edits one foreign file by indentation. PyYAML may be missing on a node, and would lose comments."""

    def __init__(
        self, lines: list[str], nics: dict[str, set[str]], names: list[str], path: str
    ) -> None:
        self.lines = lines
        self.nics = nics
        self.names = names
        self.path = path
        self.out: set[int] = set()
        self.renamed: dict[int, str] = {}

    def text(self) -> str:
        """Return the edited file."""
        return "".join(
            common.comment_out(line) if number in self.out else self.renamed.get(number, line)
            for number, line in enumerate(self.lines)
        )

    def mark_lines(self) -> None:
        """Mark the lines to remove, in every section that has entries of interfaces."""
        for number, word, rest in list_child_keys(["x:\n", *self.lines], 0, len(self.lines) + 1):
            if word != "network":
                continue
            # children() counted the line before the file
            head = number - 1
            self.plain(rest)
            for at, kind, after in list_child_keys(
                self.lines, head, find_block_end(self.lines, head)
            ):
                if kind in ("ethernets", "bonds", "vlans", "bridges"):
                    self.plain(after)
                    self.strip_section(at, kind)

    def plain(self, rest: str) -> None:
        """Refuse a block in one line if it contains one of Fullmesh's interfaces."""
        text = "".join(self.lines)
        if rest and not rest.startswith("#") and any(name in text for name in self.names):
            self.refuse()

    def refuse(self) -> None:
        """Raise the error that the user must edit this file."""
        raise common.ForeignError(
            "{} configures {} in a form that Fullmesh cannot edit line by line. Fix: write each key of that entry on a "
            "line of its own, or remove the entry.".format(self.path, " or ".join(self.names))
        )

    def strip_section(self, start: int, kind: str) -> None:
        """Mark the lines to remove from a section such as ethernets, bonds, vlans."""
        for number, key, rest in list_child_keys(
            self.lines, start, find_block_end(self.lines, start)
        ):
            end = find_block_end(self.lines, number)
            name = self.meant(number, end, key, rest)
            if name:
                carried = CARRIED if name in self.nics and kind == "ethernets" else NOTHING
                self.refuse_lost(kind, name, self.pairs(number, end, rest, carried))
                self.strip_entry(number, end, name, key, carried)
        inside = range(start + 1, find_block_end(self.lines, start))
        says = [at for at in inside if measure_indent(self.lines[at]) >= 0]
        if says and all(at in self.out for at in says):
            # "ethernets:" with nothing in it is not a mapping any more
            self.out.add(start)

    def refuse_lost(self, kind: str, name: str, pairs: list[tuple[str, str]]) -> None:
        """Refuse an entry with keys that a link of the plan does not cover."""
        settings = [one for key, block in pairs for one in parse_entry_settings(key, block)]
        if kind not in OF_KIND:
            settings.append(("network", kind, name))
        covered = {**COVERED, "": COVERED[""] + OF_KIND.get(kind, "")}
        common.refuse_lost_settings(self.path, common.find_lost_settings(settings, covered))

    def pairs(
        self, start: int, end: int, rest: str, carried: frozenset[str]
    ) -> list[tuple[str, str]]:
        """Return the keys and values of an entry that do not stay.

        Refuse an entry that cannot be parsed reliably.
        """
        head = re.sub(r"^(?:[&!]\S*\s+)+", "", strip_yaml_comments(rest) + " ", flags=re.ASCII)
        if head.startswith("{"):
            flowing = parse_flow_mapping(head + "\n" + self.plainly(start + 1, end))
            if any(key in carried for key, _ in flowing):
                self.refuse()
            return flowing
        keys = [
            one
            for one in list_child_keys(self.lines, start, end)
            if not re.match(r"\s*-(\s|$)", self.lines[one[0]], re.ASCII)
        ]
        marks = [at for at, _, _ in keys] + [end]
        depth = measure_indent(self.lines[marks[0]]) if keys else 0
        unread = any(
            0 <= measure_indent(self.lines[at]) <= depth
            and not re.match(r"\s*-(\s|$)", self.lines[at], re.ASCII)
            for at in {*range(start + 1, end)} - {*marks}
        )
        if (
            unread
            or head.strip(SPACE) not in ("", "~", "null")
            or self.plainly(start + 1, marks[0]).strip(SPACE)
        ):
            self.refuse()
        blocks = [
            (key, strip_yaml_comments(value) + "\n" + self.plainly(at + 1, until))
            for (at, key, value), until in zip(keys, marks[1:])
        ]
        return [(key, block) for key, block in blocks if key not in carried]

    def plainly(self, start: int, end: int) -> str:
        """Return some of the lines without their comments."""
        return strip_yaml_comments("".join(self.lines[start:end]))

    def strip_entry(
        self, start: int, end: int, name: str, key: str, carried: frozenset[str]
    ) -> None:
        """Mark one entry except for the lines that stay."""
        keep: set[int] = set()
        for at, word, _ in list_child_keys(self.lines, start, end):
            if word in carried:
                keep |= set(range(at, find_block_end(self.lines, at)))
        gone = {at for at in range(start + 1, end) if measure_indent(self.lines[at]) >= 0} - keep
        if not keep:
            gone.add(start)
        elif key != name:
            # netplan merges by the entry's name, so it must be Fullmesh's, or two entries would mean one interface
            self.renamed[start] = self.lines[start].replace(key, name, 1)
        self.out |= gone

    def get_matched_name(self, start: int, end: int, rest: str) -> str:
        """Return the interface's name, or the pattern of names, that an entry matches. "" without one."""
        flow = strip_yaml_comments(rest)
        if flow.startswith("{"):
            text = dict(parse_flow_mapping(flow + "\n" + self.plainly(start + 1, end))).get(
                "match", ""
            )
        else:
            keys = list_child_keys(self.lines, start, end)
            at, text = next(((at, said) for at, key, said in keys if key == "match"), (end, ""))
            text += "\n" + self.plainly(at + 1, find_block_end(self.lines, at)) if at < end else ""
        for quoted, plain, value in INNER_KEY.findall(strip_yaml_comments(text)):
            if (quoted or plain) == "name":
                return str(value.strip(" \t\"'"))
        return ""

    def meant(self, start: int, end: int, key: str, rest: str) -> str:
        """Return the interface of an entry, by name, set-name, match or hardware address, or ""."""
        block = "".join(self.lines[start:end])
        if key in self.names:
            return key
        matched = self.get_matched_name(start, end, rest)
        if matched in self.nics:
            return matched
        named = re.search(r"^\s*set-name:\s*[\"']?([^\"'\s#]+)", block, re.MULTILINE | re.ASCII)
        if named and named.group(1) in self.nics:
            return named.group(1)
        mac = re.search(r"macaddress:\s*[\"']?([0-9A-Fa-f:]{17})", block, re.ASCII)
        for name, own in self.nics.items():
            if mac and mac.group(1).lower() in own:
                return name
        return ""


# --- apply and restore ------------------------------------------------------------------------


def check_files(run: SplitRunner, scratch: Files) -> str:
    """Let netplan check Fullmesh's file together with the others in a temporary directory."""
    root = tempfile.mkdtemp(prefix="fullmesh-netplan-")
    try:
        for place in PLACES:
            os.makedirs(root + place, 0o700, exist_ok=True)
        for path, content in scratch.items():
            os.makedirs(os.path.dirname(root + path), 0o700, exist_ok=True)
            with open(root + path, "w", errors="surrogateescape", newline="") as stream:
                stream.write(content)
            os.chmod(root + path, 0o600)
        rc, out, err = run(["netplan", "generate", "--root-dir", root])
    finally:
        shutil.rmtree(root)
    return "" if rc == 0 else (err or out).strip(SPACE).replace(root, "") or f"rc {rc}"


def read_snapshot(run: SplitRunner, names: list[str]) -> OwnerState:
    """Return the kernel's state, and whether systemd-networkd runs."""
    state = kernel_state.read_kernel_state(run, names)
    command = ["systemctl", "is-active", "--quiet", "systemd-networkd.service"]
    state["networkd"] = run(command)[0] == 0
    return state


def build_activation_commands(
    links: list[LinkSettings], before: OwnerState, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Work like `netplan apply`, but only for Fullmesh's interfaces, because that one reconfigures all of them."""
    steps = [*kernel_state.build_remake_commands(links, before), ["netplan", "generate"]]
    if not before.get("networkd", True):
        return [*steps, ["netplan", "apply"]]
    steps.append(["networkctl", "reload"])
    return steps + kernel_state.build_reconfigure_commands(links, before, steps, names)


def build_reactivation_commands(names: list[str], before: OwnerState) -> Commands:
    """Let networkd read the present files, then restore state that only the kernel had."""
    steps = [*kernel_state.build_removal_commands(names, before), ["netplan", "generate"]]
    steps += kernel_state.build_reload_commands(
        names, before
    ) + kernel_state.build_runtime_commands(names, before)
    return steps + kernel_state.build_lease_commands(names, before)


def build_early_boot_commands(names: list[str], before: OwnerState) -> Commands:
    """Return commands for a reboot during the change.

    They run after the old files are restored and before networkd.

    At that time netplan's generator has run, and udev has set the MTU of its .link files on the present NICs. Old files
    without an MTU would keep it. A NIC that appears later uses the present files.
    """
    then = {name: before["links"][name] for name in names if name in before["links"]}
    script = 'test ! -d "/sys/class/net/$0" || ip link set "$0" mtu "$1"'
    mtus = [
        ["/bin/sh", "-c", script, name, str(link["mtu"])]
        for name, link in then.items()
        if link["mtu"]
    ]
    return [["netplan", "generate"], *mtus]
