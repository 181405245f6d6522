# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the kernel's state of Fullmesh's interfaces, and build the commands that restore it.

Standard library only.

Every backend of static_ip uses this. ``common.py`` describes the parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tools import ip
from . import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ...commands import SplitRunner
    from ...tools.ip import IpLink, IpRoute
    from ..types import KernelLink, KernelRoute, LinkSettings, OwnerState
    from .common import Commands


def read_kernel_state(run: SplitRunner, names: Iterable[str]) -> OwnerState:
    """Return the kernel's state of the interfaces *names*, for `build_runtime_commands`.

    Missing interfaces are not among the links.
    """
    wanted = list(names)
    links: dict[str, KernelLink] = {}
    for name, one in ip.parse_links(run(ip.SHOW_LINKS)[1]).items():
        if name in wanted:
            links[name] = describe_kernel_link(one)
    routes: list[KernelRoute] = []
    for family in ("-4", "-6"):
        found = ip.parse_routes(run(ip.build_routes_command(family))[1])
        routes += [describe_kernel_route(one, family) for one in found if one["dev"] in wanted]
    # routes from the kernel, a DHCP client or a router come back with the addresses
    routes = [one for one in routes if one["protocol"] not in ("kernel", "ra", "dhcp", "redirect")]
    return {"links": links, "routes": routes}


def describe_kernel_link(one: IpLink) -> KernelLink:
    """Describe an interface. Addresses with a lifetime are leases, which their client requests again."""
    found = [address for address in one["addresses"] if address["scope"] != "link"]
    return {
        "up": one["up"],
        "mtu": one["mtu"],
        "master": one["master"],
        "kind": one["kind"],
        "data": one["data"],
        "parent": one["parent"],
        "addresses": [address["address"] for address in found if not address["dynamic"]],
        "leases": [address["address"] for address in found if address["dynamic"]],
    }


def describe_kernel_route(one: IpRoute, family: str) -> KernelRoute:
    """Describe a route."""
    return {
        "family": family,
        "to": one["to"],
        "via": one["via"],
        "dev": one["dev"],
        "metric": one["metric"],
        "protocol": one["protocol"],
    }


def is_link_named(link: LinkSettings, names: list[str] | None) -> bool:
    """Return whether the link, or a member of its bond, is among *names*. None includes every link."""
    return names is None or bool({*common.list_affected_interfaces([link])} & {*names})


def build_remake_commands(links: Iterable[LinkSettings], before: OwnerState) -> Commands:
    """Remove a bond or VLAN with other parameters, because no owner changes those of an existing device."""
    steps: Commands = []
    for link in reversed(common.sort_links(links)):
        there = before["links"].get(link["interface"])
        if there is not None and is_other_device(link, there):
            steps.append(["ip", "link", "delete", link["interface"]])
    return steps


def with_remade(links: Iterable[LinkSettings], before: OwnerState) -> OwnerState:
    """Return a snapshot that also lists the devices that the change creates again, and so must the rollback."""
    return {**before, "remade": [step[-1] for step in build_remake_commands(links, before)]}


def find_changed_devices(then: OwnerState, now: OwnerState) -> list[str]:
    """Return bonds and VLANs in both snapshots that differ in kind, tag, parent or bond options."""
    both = [name for name in then["links"] if name in now["links"]]
    return [
        name
        for name in both
        if build_device_arguments(then["links"][name]) != build_device_arguments(now["links"][name])
    ]


def build_device_arguments(there: KernelLink | None) -> list[str]:
    """Return the arguments of ``ip link add NAME`` that create this bond or VLAN. [] for a physical interface."""
    if there is None or there.get("kind") not in ("vlan", "bond"):
        return []
    data = there.get("data", {})
    if there["kind"] == "vlan":
        return ["link", there["parent"], "type", "vlan", "id", str(data.get("id"))]
    lacp = data.get("mode") == "802.3ad"
    words = ["type", "bond", "mode", str(data.get("mode"))]
    # zero is the default, and the kernel rejects updelay without miimon, and LACP options in another mode
    for key, name in (("miimon", "miimon"), ("updelay", "updelay"), ("downdelay", "downdelay")):
        words += [key, str(data[name])] if data.get(name) else []
    if data.get("xmit_hash_policy"):
        words += ["xmit_hash_policy", str(data["xmit_hash_policy"])]
    for key, name in (("lacp_rate", "ad_lacp_rate"), ("ad_select", "ad_select")):
        words += [key, str(data[name])] if lacp and data.get(name) else []
    return words


def list_remade_interfaces(names: Iterable[str], before: OwnerState) -> list[str]:
    """Return existing interfaces that the rollback removes first, because their device or parent has changed.

    No owner converts an existing device: networkd leaves it as it is (systemd#9627), and ifupdown's stanza only creates
    missing ones.
    """
    remade = before.get("remade", [])
    return [one for one in names if {one, get_saved_parent(one, before)} & {*remade}]


def get_saved_parent(name: str, before: OwnerState) -> str:
    """Return the parent that an interface had, or ""."""
    there = before["links"].get(name)
    return there.get("parent", "") if there else ""


def list_kept_interfaces(names: Iterable[str], before: OwnerState) -> list[str]:
    """Return those of *names* that existed before and are not removed by the rollback."""
    every = list(names)
    out = list_remade_interfaces(every, before)
    return [name for name in every if name in before["links"] and name not in out]


def build_recreate_commands(names: list[str], before: OwnerState) -> Commands:
    """Create removed devices that no owner has created again, because they were made by hand."""
    steps: Commands = []
    for name in list_remade_interfaces(names, before):
        words = build_device_arguments(before["links"].get(name))
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
                # only an interface that is down can be enslaved
                join += '{ ip link set "$0" down; ip link set "$0" master "$1"; }'
                steps.append(["/bin/sh", "-c", join, one, name])
    return steps


def is_other_device(link: LinkSettings, there: KernelLink) -> bool:
    """Return whether the existing device differs from the one that the link needs."""
    vlan, bond, data = common.get_vlan(link), common.get_bond(link), there["data"]
    if vlan:
        return bool(there["kind"] == "vlan") and (
            str(data.get("id")) != str(vlan["id"]) or there["parent"] != vlan["parent"]
        )
    return bool(bond) and there["kind"] == "bond" and bool(find_bond_differences(link, data))


def find_bond_differences(link: LinkSettings, data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options that differ in the bond's ``ip -d -j`` data (info_data)."""
    names = {"lacp_rate": "ad_lacp_rate"}
    wrong = []
    for key, value in common.list_bond_options(link):
        have = data.get(names.get(key, key))
        # a primary that is not enslaved yet, or an option that this iproute2 does not print, is unknown
        if have is not None and str(have) != value:
            wrong.append((key, value))
    return wrong


def build_runtime_commands(names: Iterable[str], before: OwnerState) -> Commands:
    """Return the commands that restore state that only the kernel knew. They run after the owner's own restore."""
    every = list(names)
    steps = build_recreate_commands(every, before)
    for name in every:
        then = before["links"].get(name)
        if then is None:
            continue
        if not then["master"]:
            steps.append(["ip", "link", "set", name, "nomaster"])
        steps.append(["ip", "link", "set", name, "mtu", str(then["mtu"])])
        steps.append(["ip", "link", "set", name, "up" if then["up"] else "down"])
        steps += [["ip", "addr", "replace", one, "dev", name] for one in then["addresses"]]
    steps += [build_route_command(one) for one in before["routes"] if one["dev"] in before["links"]]
    return steps


def wrap_in_scope(command: list[str]) -> list[str]:
    """Wrap a command that starts a daemon (a DHCP client), so that the daemon survives the rollback's unit.

    systemd ends all processes of a unit's group (KillMode=control-group), and the address would expire with its lease.
    A scope is a separate group, and returns the command's exit status (seen with systemd 252). Nothing is armed on a
    node without a working systemd-run (TX-103), and a rollback early in a boot starts no interface.
    """
    return ["systemd-run", "--scope", "--quiet", *command]


def build_removal_commands(names: Iterable[str], before: OwnerState) -> Commands:
    """Remove bonds and VLANs that did not exist before or were different.

    VLANs are last in *names* and removed first.
    """
    every = list(names)
    stay = list_kept_interfaces(every, before)
    made = [name for name in every if name not in stay]
    # a device that could not be created, or that disappeared with its parent, is no fault
    script = 'test ! -d "/sys/class/net/$0" || ip link delete "$0"'
    return [["/bin/sh", "-c", script, name] for name in reversed(made)]


def build_flush_commands(names: Iterable[str], before: OwnerState) -> Commands:
    """Remove Fullmesh's addresses from remaining interfaces.

    The owner and `build_runtime_commands` restore the old ones.
    """
    there = list_kept_interfaces(names, before)
    return [["ip", "addr", "flush", "dev", name, "scope", "global"] for name in there]


def build_route_command(one: KernelRoute) -> list[str]:
    """Return the command that restores a route."""
    step = ["ip", one["family"], "route", "replace", one["to"]]
    step += ["via", one["via"]] if one["via"] else []
    step += ["dev", one["dev"], "proto", str(one["protocol"])]
    return step + (["metric", str(one["metric"])] if one["metric"] else [])


SETTLED = """sleep 0.3
tries=0
for name in "$0" "$@"; do
  number=$(cat "/sys/class/net/$name/ifindex" 2> /dev/null) || continue
  state="/run/systemd/netif/links/$number"
  while [ "$tries" -lt 25 ] && grep -qsE '^ADMIN_STATE=(pending|initialized|configuring)$' "$state"; do
    tries=$((tries + 1))
    sleep 0.2
  done
done"""


def build_settle_commands(names: list[str]) -> Commands:
    """Wait until networkd has configured interfaces, 5 s at most.

    networkctl returns before that. If another program then reconfigures the interfaces or adds their addresses,
    networkd 252 can set an address 65,535 times, or that of another interface, and fail ("Numerical result out of
    range") or crash. An interface without a carrier or a lease is not configured in this time.
    """
    return [["/bin/sh", "-c", SETTLED, *names]] if names else []


def build_reconfigure_commands(
    links: list[LinkSettings], before: OwnerState, steps: Commands, names: list[str] | None
) -> Commands:
    """Have networkd configure Fullmesh's interfaces again by name.

    The reload itself creates and configures devices that *steps* remove before. They cannot be named yet.
    """
    removed = [step[-1] for step in steps if step[:3] == ["ip", "link", "delete"]]
    there = [
        name
        for name in list_kept_interfaces(
            common.list_affected_interfaces(links), {**before, "remade": removed}
        )
        if names is None or name in names
    ]
    if not there:
        return []
    return [*build_settle_commands(there), ["networkctl", "reconfigure", *there]]


def build_reload_commands(names: list[str], before: OwnerState) -> Commands:
    """Let networkd read the present files and configure the interfaces that existed before."""
    there = list_kept_interfaces(names, before)
    settle = build_settle_commands(there)
    steps = [["networkctl", "reload"], *settle, *build_flush_commands(names, before)]
    return [*steps, ["networkctl", "reconfigure", *there], *settle] if there else steps


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


def build_lease_commands(names: list[str], before: OwnerState) -> Commands:
    """Have networkd apply a lease that it has received.

    If a lease arrives between a reload and a reconfiguration, networkd 252 never sets the next lease's address. Only a
    restart helps, and no further reconfiguration (1 of 275 tries on a busy machine). The address that the engine
    restores would expire. A silent server is not waited for.
    """
    there = [
        name for name in list_kept_interfaces(names, before) if before["links"][name].get("leases")
    ]
    return [["/bin/sh", "-c", LEASED, *there]] if there else []
