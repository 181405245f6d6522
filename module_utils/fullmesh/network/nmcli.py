# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Profiles brought up through nmcli(1), whatever file they stand in. Stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools import nmcli
from .backends import kernel_state

if TYPE_CHECKING:
    from ..commands import SplitRunner
    from .types import OwnerState

# How long the rollback waits for a profile, in seconds.
BACK_SECONDS = 20


def read_active_profiles(run: SplitRunner, names: list[str]) -> dict[str, str] | None:
    """Return the uuid of the profile that is active on each device of *names*; None where NetworkManager is away."""
    rc, out, _ = run(nmcli.SHOW_ACTIVE)
    found = nmcli.parse_active_profiles(out)
    return {name: found[name] for name in names if name in found} if rc == 0 else None


def build_activate_command(profile: str, wait: int, device: str = "") -> list[str]:
    """The command that activates a profile and waits until it is there, *wait* in seconds.

    *device* only where it is there: nmcli refuses the name of one that only the profile makes.
    """
    command = ["nmcli", "--wait", str(wait), "connection", "up", "uuid", profile]
    return command + (["ifname", device] if device else [])


def build_reactivate_command(name: str, names: list[str], before: OwnerState) -> list[str]:
    """The command of the rollback that activates the profile that was active on *name*, one of *names*."""
    there = name in kernel_state.list_kept_interfaces(names, before)
    step = build_activate_command(before["profiles"][name], BACK_SECONDS, name if there else "")
    return add_dhcp_patience(step) if there and before["links"][name].get("leases") else step


# In words that nmcli's own translation leaves alone: LC_ALL=C wherever it is run for us.
AGAIN = """said=$("$0" "$@" 2>&1) && exit 0; rc=$?
case $said in *"base network connection was interrupted"*) sleep 1; exec "$0" "$@" ;; esac
echo "$said"; exit $rc"""


def add_retry(command: list[str]) -> list[str]:
    """The same command, once more when NetworkManager took the parent down meanwhile.

    It starts a VLAN by itself as soon as its profile is there; when the parent is brought up anew it ends that start,
    and ours with it where ours was just then joined to it (seen once in some twenty runs, VLAN on a bond).
    """
    return ["/bin/sh", "-c", AGAIN, *command]


ENDURE = """said=$("$0" "$@" 2>&1) && exit 0; rc=$?
for name; do :; done
own=$(ip -6 -o addr show dev "$name" scope link | awk '{print $4}')
ever=2147483647
four="ipv4.dhcp-timeout $ever"
if nmcli device modify "$name" $four ipv6.dhcp-timeout $ever > /dev/null 2>&1 ||
    more=$(nmcli device modify "$name" $four 2>&1); then
  more=
  sleep 1
  for one in $own; do ip addr add "$one" dev "$name" 2> /dev/null; done
  [ -z "$own" ] || [ -n "$(ip -6 route show fe80::/64 dev "$name")" ] ||
    ip -6 route add fe80::/64 dev "$name" proto kernel metric 256
fi
echo "$said" $more; exit $rc"""


def add_dhcp_patience(command: list[str]) -> list[str]:
    """The same command, and where no DHCP server answers a client that goes on asking.

    After its usual 45 s NetworkManager would take the address away again that the kernel was told to have meanwhile,
    try four times and then rest for minutes (seen with 1.42). The profile itself stays as it is; 2147483647 is
    "infinity" of nm-settings-nmcli(5), which knows none for IPv6 before 1.24. Where the profile leaves IPv6 to the
    kernel (ipv6.method=ignore), 1.42 drops the link-local address or its route on the way, a moment after nmcli has
    answered; nobody else puts them back.
    """
    return ["/bin/sh", "-c", ENDURE, *command]
