# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Render links as NetworkManager keyfiles (nm-settings-keyfile(5)). Standard library only."""

from __future__ import annotations

import re
import shlex
import uuid
from typing import TYPE_CHECKING

from ...files import SPACE, split_lines, split_whole_lines
from ...foreign_text import parse_decimal
from .. import nmcli
from . import common, ifcfg, kernel_state, netplan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...commands import SplitRunner
    from ..types import Changes, Files, LinkSettings, OwnerState
    from .common import Commands, Lister, Reader

    Pairs = list[tuple[str, str]]

NAME = "networkmanager"
KEYFILES = "/etc/NetworkManager/system-connections"
OURS = [KEYFILES + "/" + common.NAME + "*.nmconnection"]
READS: list[str] = []
# A fixed RFC 4122 name space, so that a profile has the same uuid on every node and in every run.
NAMESPACE = uuid.UUID("6f0c7b52-6a3e-5d0e-9f3b-2f4f6b1d7a90")
# The folders of NetworkManager's profiles. Those outside of KEYFILES are its own, the initrd's or a package's.
PLACES = (
    KEYFILES,
    "/run/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
)
FAMILY = """
    method=auto|manual|disabled|link-local|ignore|dhcp address addresses gateway route routes
    route_options=onlink=(true|false) route-metric route-table=0|254 never-default may-fail
    dns dns-search dns-priority=0 ignore-auto-dns ignore-auto-routes addr-gen-mode ip6-privacy
    dad-timeout required-timeout ra-timeout dhcp-timeout dhcp-client-id dhcp-duid dhcp-iaid
    dhcp-send-hostname=true|yes|1 link-local=0 replace-local-rule=-1 auto-route-ext-gw=-1
"""
WIRED = (
    "mac-address mac-address-blacklist mac-address-denylist mtu cloned-mac-address=preserve|permanent "
    "auto-negotiate=true|yes|1 speed=0 wake-on-lan=[01]|default accept-all-mac-addresses=-1"
)
# The parts of a profile that a link of the plan covers (nm-settings-keyfile(5)): addressing, identity, and options of
# leases that the node no longer requests. In the format of `common.find_lost_settings`.
COVERED = {
    "connection": """
        id uuid type=ethernet|802-3-ethernet|bond|vlan interface-name timestamp multi-connect read-only
        autoconnect autoconnect-priority autoconnect-retries autoconnect-slaves autoconnect-ports
        wait-device-timeout wait-activation-delay gateway-ping-timeout slave-type=bond port-type=bond
        lldp=-1 mdns=-1 llmnr=-1 dns-over-tls=-1 mptcp-flags=0 metered=0|unknown
    """,
    "ethernet": WIRED,
    "802-3-ethernet": WIRED,
    "ipv4": FAMILY,
    "ipv6": FAMILY,
    "bond": " ".join(["interface-name", *common.BOND_OPTIONS]),
    "bond-port": "queue-id=0 prio=0",
    "vlan": "interface-name id parent flags=[01]",
    "proxy": "method=0|none browser-only=false|no|0",
    "match": "*",
    "user": "*",
    ".nmmeta": "*",
}
# Keys of a member's profile that name its bond or bridge, by interface or uuid.
CONTROLLER = ("master", "controller")
# The name of a profile that netplan makes, without its entry in netplan's files.
NETPLAN_PREFIX, SUFFIX = "netplan-", ".nmconnection"
# Higher than other profiles for the same interface: NM's default is 0, cloud-init's renderer writes 120.
PRIORITY = 200


def build_profile_uuid(interface: str) -> str:
    """Return the uuid of Fullmesh's profile for *interface*."""
    return str(uuid.uuid5(NAMESPACE, interface))


def build_keyfile_path(interface: str) -> str:
    """Return the path of Fullmesh's profile."""
    return KEYFILES + "/" + common.NAME + interface + ".nmconnection"


def build_files(links: list[LinkSettings]) -> Files:
    """Return Fullmesh's complete files: one profile for each link and each member of a bond."""
    result = {build_keyfile_path(link["interface"]): render_keyfile(link) for link in links}
    for name, bond in common.map_bond_members(links).items():
        result[build_keyfile_path(name)] = render_member_keyfile(name, bond)
    return result


def get_file_mode(path: str) -> int:
    """Return the mode. NetworkManager ignores keyfiles that others can read."""
    return 0o600


def render_keyfile(link: LinkSettings) -> str:
    """Render a link as a keyfile."""
    name = link["interface"]
    vlan = common.get_vlan(link)
    kind = "bond" if common.get_bond(link) else "vlan" if vlan else "ethernet"
    head = build_connection_section(name, kind)
    if kind == "bond":
        # so that one `connection up` activates the members as well
        head.append(("autoconnect-slaves", "1"))
    # flags 1: REORDER_HDR, as `ip link add type vlan` sets it
    tag = [("id", str(vlan["id"])), ("parent", str(vlan["parent"])), ("flags", "1")] if vlan else []
    return render_keyfile_sections(
        [
            ("connection", head),
            ("bond", common.list_bond_options(link)),
            ("vlan", tag),
            ("ethernet", build_ethernet_section(link)),
            ("ipv4", build_ip_section(link, 4, "disabled")),
            # link-local, not disabled: disable_ipv6 would remove IPv6 from other users of the interface
            ("ipv6", build_ip_section(link, 6, "link-local")),
        ]
    )


def render_member_keyfile(name: str, bond: LinkSettings) -> str:
    """Render the profile of a bond's member. Every supported version reads master and slave-type."""
    head = build_connection_section(name, "ethernet")
    head += [("master", bond["interface"]), ("slave-type", "bond")]
    return render_keyfile_sections([("connection", head)])


def build_connection_section(name: str, kind: str) -> Pairs:
    """Return the common section of Fullmesh's profiles."""
    return [
        ("id", common.NAME + name),
        ("uuid", build_profile_uuid(name)),
        ("type", kind),
        ("interface-name", name),
        ("autoconnect", "true"),
        ("autoconnect-priority", str(PRIORITY)),
    ]


def render_keyfile_sections(sections: list[tuple[str, Pairs]]) -> str:
    """Render the sections that are not empty."""
    text = ["\n".join(["[" + n + "]"] + [k + "=" + v for k, v in p]) for n, p in sections if p]
    return common.HEAD + "\n\n".join(text) + "\n"


def build_ethernet_section(link: LinkSettings) -> Pairs:
    """Return MAC and MTU if they are given. Bonds and VLANs use the MTU in this section as well."""
    pairs = []
    if link.get("mac"):
        pairs.append(("mac-address", str(link["mac"]).upper()))
    if link.get("mtu"):
        pairs.append(("mtu", str(link["mtu"])))
    return pairs


def build_ip_section(link: LinkSettings, family: int, without: str) -> Pairs:
    """Return the section ipv4 or ipv6. *without* is the method for a link without such addresses."""
    addresses = common.of_family(link["addresses"], family)
    if not addresses:
        return [("method", without)]
    pairs = [("method", "manual"), ("may-fail", "false")]
    pairs += [(f"address{n}", value) for n, value in enumerate(addresses, 1)]
    gateway = common.get_gateway(link, family)
    # never-default would overrule a default route among the routes as well
    pairs.append(("gateway", gateway) if gateway else ("never-default", "true"))
    dns = common.of_family(link.get("dns", []), family)
    if dns:
        pairs.append(("dns", "".join(value + ";" for value in dns)))
    if link.get("search"):
        pairs.append(("dns-search", "".join(value + ";" for value in link["search"])))
    routes = common.list_specific_routes(link, family)
    pairs += [(f"route{n}", one["to"] + "," + one["via"]) for n, one in enumerate(routes, 1)]
    rail = common.get_rail_table(link)
    if rail and common.ip_version_of(rail.source) == family:
        way = f"route{len(routes) + 1}"
        pairs += [(way, rail.network), (f"{way}_options", f"src={rail.source},table={rail.number}")]
        rule = f"priority {rail.number} from {rail.source} table {rail.number}"
        pairs.append(("routing-rule1", rule))
    return pairs


# --- files of others --------------------------------------------------------------------------


def find_foreign_changes(read: Reader, listed: Lister, links: list[LinkSettings]) -> Changes:
    """Disable the automatic start of foreign profiles for Fullmesh's interfaces."""
    names = common.list_affected_interfaces(links)
    macs = common.read_permanent_macs(read, common.list_physical_interfaces(links))
    refuse_moved_profiles(read, listed, names)
    texts = {path: read(path) for path in list_profile_files(listed)}
    ours = {*names, *list_profile_uuids(texts.values(), names)}
    changes: Changes = {}
    for path, text in texts.items():
        if text.startswith(common.HEAD) or not is_profile_bound(text, names, macs):
            continue
        source = find_profile_source(path, read, listed)
        common.refuse_lost_settings(source, find_lost_profile_settings(text, ours))
        if not path.startswith(KEYFILES + "/"):
            refuse_preferred_profile(source, text)
        quiet = disable_autoconnect(text)
        if path.startswith(KEYFILES + "/") and quiet != text:
            changes[path] = quiet
    changes.update(ifcfg.disable_ifcfg_files(read, listed, names, macs))
    changes.update(common.disable_cloud_init(read, changes))
    return changes


def list_profile_files(listed: Lister) -> list[str]:
    """List the files of NetworkManager's profiles, without copies that it ignores, such as those that an undo keeps."""
    files = [path for place in PLACES for path in listed(place + "/*")]
    return [path for path in files if not (path.endswith("~") or "/." in path)]


def find_profile_source(path: str, read: Reader, listed: Lister) -> str:
    """Return the netplan file from which netplan makes a profile at each boot, or the profile's own path.

    Ubuntu's NetworkManager saves each profile as /etc/netplan/90-NM-UUID.yaml.
    """
    name = path.rpartition("/")[2]
    if not (name.startswith(NETPLAN_PREFIX) and name.endswith(SUFFIX)):
        return path
    entry = re.escape(name[len(NETPLAN_PREFIX) : -len(SUFFIX)])
    pattern = re.compile(rf"(?:^|[\s{{,\"']){entry}[\"']?[ \t]*:", re.MULTILINE | re.ASCII)
    files = [one for place in netplan.READS for one in listed(place) if pattern.search(read(one))]
    return files[-1] if files else path


def refuse_moved_profiles(read: Reader, listed: Lister, names: list[str]) -> None:
    """Refuse another file with the uuid of one of Fullmesh's profiles.

    Ubuntu's NetworkManager moves a profile that someone modifies, or that it finds during its own upgrade, to a netplan
    file. It would use that one, and ignore the file that Fullmesh writes. An undo would leave it.

    Raises:
        ForeignError: there is one.
    """
    own = {build_profile_uuid(name): build_keyfile_path(name) for name in names}
    for path in list_profile_files(listed):
        number = parse_keyfile(read(path)).get("connection", {}).get("uuid", "")
        if own.get(number, path) == path:
            continue
        source = find_profile_source(path, read, listed)
        again = " && netplan generate" if source != path else ""
        move = f"mv {shlex.quote(source)} /root/{again}"
        raise common.ForeignError(
            f"{source} has the profile of Fullmesh that belongs in {own[number]}, and NetworkManager uses it instead. "
            f"Fix: on the node, run `{move}`. Then run `./fullmesh apply`, which writes its profile "
            "again, also before an undo. The interface stays up."
        )


def refuse_preferred_profile(path: str, text: str) -> None:
    """Refuse a profile that Fullmesh cannot disable and that NetworkManager prefers to Fullmesh's at the next boot.

    Raises:
        ForeignError: it is one.
    """
    value = parse_keyfile(text).get("connection", {}).get("autoconnect-priority", "")
    if (parse_decimal(value) or 0) >= PRIORITY:
        raise common.ForeignError(
            f"{path} has autoconnect-priority={value}, so NetworkManager would start it instead of Fullmesh's profile, "
            f"which has {PRIORITY}. Fix: set a lower priority in {path}, or remove that setting."
        )


def list_profile_uuids(texts: Iterable[str], names: list[str]) -> list[str]:
    """Return the uuids of the profiles that are bound to *names*."""
    heads = [parse_keyfile(text).get("connection", {}) for text in texts]
    return [head.get("uuid", "") for head in heads if head.get("interface-name") in names]


def parse_keyfile(text: str) -> dict[str, dict[str, str]]:
    """Parse the needed parts of a keyfile: section -> key -> value."""
    result: dict[str, dict[str, str]] = {}
    section = ""
    for line in split_lines(text):
        word = line.strip(SPACE)
        if word.startswith("[") and word.endswith("]"):
            section = word[1:-1]
        elif "=" in word and not word.startswith(("#", ";")):
            key, _, value = word.partition("=")
            result.setdefault(section, {})[key.strip(SPACE)] = value.strip(SPACE)
    return result


def is_profile_bound(text: str, names: list[str], macs: set[str]) -> bool:
    """Return whether a profile is for one of Fullmesh's interfaces, by name or hardware address, and would start."""
    sections = parse_keyfile(text)
    head = sections.get("connection", {})
    if sections.get(".nmmeta", {}).get("nm-generated") == "true":
        return False  # NetworkManager's own record of a foreign configuration, or its default
    if head.get("autoconnect", "true").lower() in ("false", "no", "0"):
        return False
    if head.get("interface-name"):
        return head["interface-name"] in names
    wired = sections.get("ethernet", sections.get("802-3-ethernet", {}))
    return wired.get("mac-address", "").lower() in macs


def find_lost_profile_settings(text: str, ours: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the settings of a profile that a link of the plan does not cover.

    Args:
        text: the profile.
        ours: names and uuids of Fullmesh's interfaces. A member of one of them stays a member.
    """
    settings = [
        (section, key, value)
        for section, pairs in parse_keyfile(text).items()
        for key, value in pairs.items()
        if value and not (section == "connection" and key in CONTROLLER and value in ours)
    ]
    return common.find_lost_settings(settings, COVERED)


def disable_autoconnect(text: str) -> str:
    """Return the profile with autoconnect=false and every other byte unchanged."""
    lines = split_whole_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    section, at = "", 0
    for number, line in enumerate(lines):
        word = line.strip(SPACE)
        if word.startswith("[") and word.endswith("]"):
            section = word[1:-1]
            at = number + 1 if section == "connection" else at
        elif section == "connection" and word.partition("=")[0].strip(SPACE) == "autoconnect":
            lines[number] = common.comment_out(line)
    # a profile may lack that group, and a key before the first group makes the file unreadable
    lines[at:at] = ["autoconnect=false\n"] if at else ["[connection]\n", "autoconnect=false\n"]
    return "".join(lines)


# --- apply and restore ------------------------------------------------------------------------


def check_files(run: SplitRunner, scratch: Files) -> str:
    """Return no error: NetworkManager has no dry run for keyfiles that works on every supported version."""
    return ""


def read_snapshot(run: SplitRunner, names: list[str]) -> OwnerState:
    """Return the kernel's state, and the active profile of each device."""
    state = kernel_state.read_kernel_state(run, names)
    state["profiles"] = nmcli.read_active_profiles(run, names) or {}
    return state


def build_activation_commands(
    links: list[LinkSettings], before: OwnerState, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Load all profiles, then bring up *names* (None: all): NICs and bonds first, then VLANs."""
    every = common.list_affected_interfaces(links)
    steps = kernel_state.build_remake_commands(
        [one for one in links if kernel_state.is_link_named(one, names)], before
    )
    # profiles of others that no longer start automatically, which `load` would not report
    steps.append(["nmcli", "connection", "reload"])
    steps.append(
        ["nmcli", "connection", "load"] + [build_keyfile_path(name) for name in sorted(every)]
    )
    for link in common.sort_links(links):
        if kernel_state.is_link_named(link, names):
            # nmcli refuses the name of a device that only the profile makes
            virtual = common.get_bond(link) or common.get_vlan(link)
            device = "" if virtual else link["interface"]
            step = nmcli.build_activate_command(build_profile_uuid(link["interface"]), wait, device)
            steps.append(nmcli.add_retry(step) if common.get_vlan(link) else step)
    return steps


def build_reactivation_commands(names: list[str], before: OwnerState) -> Commands:
    """Forget Fullmesh's profiles (their files are gone), activate the old ones, then restore the kernel's own state."""
    steps = [["nmcli", "connection", "reload"], *kernel_state.build_removal_commands(names, before)]
    for name in sorted(before.get("profiles", {})):
        if name in names:
            steps.append(nmcli.build_reactivate_command(name, names, before))
    return steps + kernel_state.build_runtime_commands(names, before)
