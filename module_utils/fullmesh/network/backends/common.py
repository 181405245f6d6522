# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What all backends of static_ip share: words about a link, and the kernel's state of it. Stdlib only.

A link is an entry of the cluster plan with the names that the node has: {interface, mac, addresses, gateway, dns,
search, mtu, routes, vlan, bond}. ``run(argv) -> (rc, out, err)``, ``read(path) -> text or ""`` and
``listed(pattern) -> paths`` are handed in, so that everything here runs without a node.
"""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ...schema.links import Bond, RouteWanted, Vlan
    from ..types import Changes, KernelLink, KernelRoute, Link, State

    Commands = list[list[str]]
    Runner = Callable[[list[str]], tuple[int, str, str]]
    Reader = Callable[[str], str]
    Lister = Callable[[str], list[str]]

NAME = "fullmesh-"
HEAD = "# Ansible managed: role static_ip of Fullmesh; changes made here are lost.\n"
# Before each line of somebody else that we put out of force.
MARK = "# fullmesh: "


# --- words about a link -----------------------------------------------------------------------


def version(text: str) -> int:
    """4 or 6, of an address with or without prefix."""
    return ipaddress.ip_interface(text).version


def of_family(values: Iterable[str], family: int) -> list[str]:
    """Those of *values* that are IPv4 or IPv6."""
    return [value for value in values if version(value) == family]


def wanted_routes(link: Link) -> list[RouteWanted]:
    """The gateway as a route, and the routes; 0.0.0.0/0 is what every netplan knows (22.04: 0.104)."""
    routes = list(link.get("routes", []))
    if link.get("gateway"):
        to = DEFAULTS[version(link["gateway"])]
        routes.insert(0, {"to": to, "via": link["gateway"]})
    return routes


# A default route as `ip` takes it back, a family.
DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}


def gateway_of(link: Link, family: int) -> str:
    """The next hop of the link's default route of a family; a link has one gateway, the other family's is a route."""
    wide = (one["via"] for one in wanted_routes(link) if one["to"] == DEFAULTS[family])
    return next(wide, "")


def narrow_routes(link: Link, family: int) -> list[RouteWanted]:
    """The routes of a family without the default one."""
    routes = [one for one in link.get("routes", []) if version(one["to"]) == family]
    return [one for one in routes if one["to"] != DEFAULTS[family]]


def bond_of(link: Link) -> Bond:
    """What the link says of its bond; {} where it is none."""
    return link.get("bond") or {}


def vlan_of(link: Link) -> Vlan:
    """What the link says of its VLAN; {} where it is none."""
    return link.get("vlan") or {}


def members(links: Iterable[Link]) -> dict[str, Link]:
    """Member interface -> the bond that takes it."""
    return {name: link for link in links for name in bond_of(link).get("members", [])}


def stacked(links: Iterable[Link], parent: str) -> list[str]:
    """The VLANs that sit on *parent*."""
    return [link["interface"] for link in links if vlan_of(link).get("parent") == parent]


def bare_parents(links: Iterable[Link]) -> list[str]:
    """Interfaces that only carry our VLANs: their own addresses are somebody else's."""
    every = list(links)
    own = {link["interface"] for link in every}
    found = [vlan_of(link)["parent"] for link in every if vlan_of(link)]
    return [name for name in dict.fromkeys(found) if name not in own]


def ordered(links: Iterable[Link]) -> list[Link]:
    """What others stand on comes first: cards and bonds, then VLANs."""
    return sorted(links, key=lambda link: bool(vlan_of(link)))


def touched(links: Iterable[Link]) -> list[str]:
    """Every interface whose state changes with *links*: members of bonds, cards and bonds, VLANs."""
    every = list(links)
    names = [*members(every), *(link["interface"] for link in ordered(every))]
    return list(dict.fromkeys(names))


def cards(links: Iterable[Link]) -> list[str]:
    """Interfaces of *links* with hardware of their own; a VLAN or bond has the address of another one."""
    every = list(links)
    plain = [one["interface"] for one in every if not vlan_of(one) and not bond_of(one)]
    return list(dict.fromkeys([*members(every), *plain]))


def hardware(read: Reader, names: Iterable[str]) -> set[str]:
    """The permanent hardware addresses of *names*; a bond's member shows the bond's in its place."""
    found = set()
    for name in names:
        base = "/sys/class/net/" + name + "/"
        found.add((read(base + "bonding_slave/perm_hwaddr") or read(base + "address")).strip())
    return {one.lower() for one in found if one}


# bonding.txt of the kernel: option -> what the plan calls it is the same word
BOND_OPTIONS = (
    "mode",
    "miimon",
    "updelay",
    "downdelay",
    "lacp_rate",
    "xmit_hash_policy",
    "ad_select",
    "primary",
)


def bond_options(link: Link) -> list[tuple[str, str]]:
    """The kernel's options of a bond, in the order in which the kernel takes them (mode first)."""
    bond: Mapping[str, object] = bond_of(link)
    return [(key, str(bond[key])) for key in BOND_OPTIONS if bond.get(key) not in (None, "")]


class ForeignError(ValueError):
    """A file of somebody else that fights with ours and that we do not dare to edit."""


# How each of them is kept where it does not hang on one profile of NetworkManager.
KEPT_ELSEWHERE = {
    "zone": "give firewalld the interface itself (firewall-cmd --permanent --zone=ZONE --change-interface=NAME)",
    "MAC": "give the card its address in a systemd.link(5) file (MACAddress=)",
    "card": "give the card its settings in a systemd.link(5) file or a unit of your own",
    "802.1X": "leave this interface's addresses as they are (static_ip_manage: false)",
    "rules": "leave this interface's addresses as they are (static_ip_manage: false)",
}


def refuse_lost(path: str, lost: list[tuple[str, str]]) -> None:
    """Refuse to replace a profile that gives more than addresses: that would be gone, at the next boot if not at once.

    Args:
        path: the profile.
        lost: (a word of KEPT_ELSEWHERE, the setting as it stands there).

    Raises:
        ForeignError: there is any.
    """
    if lost:
        kinds = dict.fromkeys(kind for kind, _ in lost)
        raise ForeignError(
            "{} gives its interface {}, which a profile of ours would not: {}; then take it out of there".format(
                path,
                ", ".join(one for _, one in lost),
                "; ".join(dict.fromkeys(KEPT_ELSEWHERE[kind] for kind in kinds)),
            )
        )


def commented(line: str) -> str:
    """A line of somebody else, out of force, still there to be read; works in every format that we edit."""
    if not line.strip():
        return line  # its end is blank as well, and what comes next must not end up behind our mark
    indent = line[: len(line) - len(line.lstrip())]
    return indent + MARK + line.lstrip()


CLOUD_INIT = "/etc/cloud/cloud.cfg.d/99-fullmesh-network.cfg"
# What cloud-init writes at the head of network files ("Created by cloud-init on instance boot automatically",
# "generated from information provided by the datasource").
CLOUD_INIT_WORDS = ("cloud-init", "provided by the datasource")


def cloud_init(read: Reader, changes: Changes) -> Changes:
    """Keep cloud-init from writing its network files again, where it wrote one that changes.

    The drop-in is the one that cloud-init's own files name (network: {config: disabled}).
    """
    for path in changes:
        if "cloud-init" in path or any(word in read(path)[:600] for word in CLOUD_INIT_WORDS):
            return {CLOUD_INIT: HEAD + "network: {config: disabled}\n"}
    return {}


# --- the kernel's state, and the rollback to it -----------------------------------------------


def kernel_state(run: Runner, names: Iterable[str]) -> State:
    """What the kernel says of the interfaces *names*, in the form that `runtime` puts back.

    An interface that is not there is not among the links.
    """
    wanted = list(names)
    links: dict[str, KernelLink] = {}
    for one in json.loads(run(["ip", "-d", "-j", "addr", "show"])[1] or "[]"):
        if one.get("ifname") in wanted:
            links[one["ifname"]] = link_state(one)
    routes: list[KernelRoute] = []
    for family in ("-4", "-6"):
        found = json.loads(run(["ip", "-j", family, "route", "show", "table", "main"])[1] or "[]")
        routes += [route_state(one, family) for one in found if one.get("dev") in wanted]
    # what the kernel and a DHCP client or router made of addresses comes back with those
    routes = [one for one in routes if one["protocol"] not in ("kernel", "ra", "dhcp", "redirect")]
    return {"links": links, "routes": routes}


def link_state(one: dict[str, Any]) -> KernelLink:
    """One entry of ``ip -j addr``; an address with an end is a lease, which its client asks for again."""
    state: KernelLink = {
        "up": "UP" in one.get("flags", []),
        "mtu": one.get("mtu", 0),
        "master": one.get("master", ""),
        "kind": one.get("linkinfo", {}).get("info_kind", ""),
        "data": one.get("linkinfo", {}).get("info_data", {}),
        "parent": one.get("link", ""),
        "addresses": [],
        "leases": [],
    }
    for info in one.get("addr_info", []):
        if info.get("scope") == "link" or not info.get("local"):
            continue
        held = state["leases"] if info.get("dynamic") else state["addresses"]
        held.append("{}/{}".format(info["local"], info.get("prefixlen")))
    return state


def route_state(one: dict[str, Any], family: str) -> KernelRoute:
    """One entry of ``ip -j route``."""
    return {
        "family": family,
        "to": one.get("dst", ""),
        "via": one.get("gateway", ""),
        "dev": one.get("dev", ""),
        "metric": one.get("metric", 0),
        "protocol": one.get("protocol", "boot"),
    }


def named(link: Link, names: list[str] | None) -> bool:
    """Say whether the link, or a member of its bond, is among *names*; None names every link."""
    return names is None or bool({*touched([link])} & {*names})


def remade(links: Iterable[Link], before: State) -> Commands:
    """Remove a bond or VLAN that is there with other parameters: no owner changes those of a living device."""
    steps: Commands = []
    for link in reversed(ordered(links)):
        there = before["links"].get(link["interface"])
        if there is not None and differs(link, there):
            steps.append(["ip", "link", "delete", link["interface"]])
    return steps


def with_remade(links: Iterable[Link], before: State) -> State:
    """A snapshot that knows which devices the change makes anew, so that the rollback makes them anew as well."""
    return {**before, "remade": [step[-1] for step in remade(links, before)]}


def unlike(then: State, now: State) -> list[str]:
    """The bonds and VLANs that two snapshots have both, as other devices: kind, tag, parent, options of a bond."""
    both = [name for name in then["links"] if name in now["links"]]
    return [name for name in both if made_as(then["links"][name]) != made_as(now["links"][name])]


def made_as(there: KernelLink | None) -> list[str]:
    """The arguments of ``ip link add NAME`` that make a bond or VLAN as it is there; [] for a card."""
    if there is None or there.get("kind") not in ("vlan", "bond"):
        return []
    data = there.get("data", {})
    if there["kind"] == "vlan":
        return ["link", there["parent"], "type", "vlan", "id", str(data.get("id"))]
    lacp = data.get("mode") == "802.3ad"
    words = ["type", "bond", "mode", str(data.get("mode"))]
    # zero is the default, and updelay without miimon is refused; so is a word of LACP in another mode
    for key, name in (("miimon", "miimon"), ("updelay", "updelay"), ("downdelay", "downdelay")):
        words += [key, str(data[name])] if data.get(name) else []
    if data.get("xmit_hash_policy"):
        words += ["xmit_hash_policy", str(data["xmit_hash_policy"])]
    for key, name in (("lacp_rate", "ad_lacp_rate"), ("ad_select", "ad_select")):
        words += [key, str(data[name])] if lacp and data.get(name) else []
    return words


def removed(names: Iterable[str], before: State) -> list[str]:
    """What the rollback removes first, though it was there: it has another shape now, or stands on such a one.

    Nobody changes a living device back: networkd leaves one that is there as it is (systemd#9627), and ifupdown's
    stanza makes none where one stands.
    """
    anew = before.get("remade", [])
    return [one for one in names if {one, parent_of(one, before)} & {*anew}]


def parent_of(name: str, before: State) -> str:
    """What an interface stood on; "" for nothing, or where it was not there."""
    there = before["links"].get(name)
    return there.get("parent", "") if there else ""


def staying(names: Iterable[str], before: State) -> list[str]:
    """Those of *names* that were there and are not removed on the way."""
    every = list(names)
    out = removed(every, before)
    return [name for name in every if name in before["links"] and name not in out]


def made_again(names: list[str], before: State) -> Commands:
    """Make what was removed and what no owner has made by now: somebody had made it by hand."""
    steps: Commands = []
    for name in removed(names, before):
        words = made_as(before["links"].get(name))
        if not words:
            continue
        test = 'test -d "/sys/class/net/$0"'
        # the owner may be faster after all
        add = " || ".join([test, 'ip link add name "$0" "$@"', test])
        steps.append(["/bin/sh", "-c", add, name, *words])
        for one in names:
            there = before["links"].get(one)
            if there and there.get("master") == name:
                join = 'test -e "/sys/class/net/$1/lower_$0" || '
                # only a card that is down can be enslaved
                join += '{ ip link set "$0" down; ip link set "$0" master "$1"; }'
                steps.append(["/bin/sh", "-c", join, one, name])
    return steps


def differs(link: Link, there: KernelLink) -> bool:
    """Say whether the device that is there is another one than the link wants."""
    vlan, bond, data = vlan_of(link), bond_of(link), there["data"]
    if vlan:
        return bool(there["kind"] == "vlan") and (
            str(data.get("id")) != str(vlan["id"]) or there["parent"] != vlan["parent"]
        )
    return bool(bond) and there["kind"] == "bond" and bool(bond_differs(link, data))


def bond_differs(link: Link, data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The options that the bond lacks, of what ``ip -d -j`` says of it (info_data)."""
    names = {"lacp_rate": "ad_lacp_rate"}
    wrong = []
    for key, value in bond_options(link):
        have = data.get(names.get(key, key))
        # a primary that is not enslaved yet, or an option that this iproute2 does not print, says nothing
        if have is not None and str(have) != value:
            wrong.append((key, value))
    return wrong


def runtime(names: Iterable[str], before: State) -> Commands:
    """Commands that give the kernel back what nobody but the kernel knew: run after the owner had its turn."""
    every = list(names)
    steps = made_again(every, before)
    for name in every:
        then = before["links"].get(name)
        if then is None:
            continue
        if not then["master"]:
            steps.append(["ip", "link", "set", name, "nomaster"])
        steps.append(["ip", "link", "set", name, "mtu", str(then["mtu"])])
        steps.append(["ip", "link", "set", name, "up" if then["up"] else "down"])
        steps += [["ip", "addr", "replace", one, "dev", name] for one in then["addresses"]]
    steps += [route_step(one) for one in before["routes"] if one["dev"] in before["links"]]
    return steps


def outliving(command: list[str]) -> list[str]:
    """A command whose daemon (a DHCP client) lives on when the unit ends in which the rollback runs.

    systemd ends what is left in a unit's group (KillMode=control-group), and the address goes with its lease later on.
    A scope is a group of its own; the command's exit status comes through (seen with systemd 252). Nothing is armed on
    a node where systemd-run does not work (TX-103), and early in a boot no rollback brings an interface up by itself.
    """
    return ["systemd-run", "--scope", "--quiet", *command]


def gone(names: Iterable[str], before: State) -> Commands:
    """Remove what was not there before, or not so: a bond or a VLAN; VLANs stand last in *names* and go first."""
    every = list(names)
    stay = staying(every, before)
    made = [name for name in every if name not in stay]
    # one that could not be made, or that went with its parent, is no fault to be told
    script = 'test ! -d "/sys/class/net/$0" || ip link delete "$0"'
    return [["/bin/sh", "-c", script, name] for name in reversed(made)]


def emptied(names: Iterable[str], before: State) -> Commands:
    """Take our addresses off what stays; its owner and `runtime` give it its own ones back."""
    there = staying(names, before)
    return [["ip", "addr", "flush", "dev", name, "scope", "global"] for name in there]


def route_step(one: KernelRoute) -> list[str]:
    """The command that puts a route back."""
    step = ["ip", one["family"], "route", "replace", one["to"]]
    step += ["via", one["via"]] if one["via"] else []
    step += ["dev", one["dev"], "proto", str(one["protocol"])]
    return step + (["metric", str(one["metric"])] if one["metric"] else [])


def reconfigured(
    links: list[Link], before: State, steps: Commands, names: list[str] | None
) -> Commands:
    """Have networkd configure our interfaces again by name.

    One that *steps* remove before is made by the reload and configured as it appears; it cannot be named yet.
    """
    anew = [step[-1] for step in steps if step[:3] == ["ip", "link", "delete"]]
    there = [
        name
        for name in staying(touched(links), {**before, "remade": anew})
        if names is None or name in names
    ]
    return [["networkctl", "reconfigure", *there]] if there else []


def reloaded(names: list[str], before: State) -> Commands:
    """Let networkd read the files that stand there now and configure those interfaces that were there before."""
    there = staying(names, before)
    steps = [["networkctl", "reload"], *emptied(names, before)]
    return [*steps, ["networkctl", "reconfigure", *there]] if there else steps


LEASED = """for name in "$0" "$@"; do
  number=$(cat "/sys/class/net/$name/ifindex") || continue
  for try in 1 2 3 4 5 6 7 8 9 10; do
    address=$(sed -n 's/^ADDRESS=//p' "/run/systemd/netif/leases/$number" 2> /dev/null)
    case $(ip -4 -o addr show dev "$name") in *" ${address:-none}/"*) continue 2 ;; esac
    [ -n "$address" ] || [ "$try" -lt 4 ] || continue 2
    sleep 0.5
  done
  exec systemctl restart systemd-networkd.service
done"""


def leased(names: list[str], before: State) -> Commands:
    """Have networkd use a lease that it has got.

    Where a lease comes between a reload and a reconfiguration, networkd 252 never sets the address of the next one, and
    no further reconfiguration helps, only a restart (1 of 275 tries on a busy machine). The address that the engine
    gives back would go when its time runs out. A server that is silent is not waited for.
    """
    there = [name for name in staying(names, before) if before["links"][name].get("leases")]
    return [["/bin/sh", "-c", LEASED, *there]] if there else []
