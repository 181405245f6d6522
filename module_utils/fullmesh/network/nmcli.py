# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Activate profiles with nmcli(1), for any kind of profile file. Standard library only."""

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
    """Return the uuid of the active profile on each device of *names*. None if NetworkManager does not run."""
    rc, out, _ = run(nmcli.SHOW_ACTIVE)
    found = nmcli.parse_active_profiles(out)
    return {name: found[name] for name in names if name in found} if rc == 0 else None


def build_activate_command(profile: str, wait: int, device: str = "") -> list[str]:
    """Return the command that activates a profile and waits up to *wait* seconds.

    *device* only if it exists: nmcli rejects the name of a device that the profile creates.
    """
    command = ["nmcli", "--wait", str(wait), "connection", "up", "uuid", profile]
    return command + (["ifname", device] if device else [])


def build_reactivate_command(name: str, names: list[str], before: OwnerState) -> list[str]:
    """Return the rollback's command that activates the previous profile of *name*, one of *names*."""
    there = name in kernel_state.list_kept_interfaces(names, before)
    step = build_activate_command(before["profiles"][name], BACK_SECONDS, name if there else "")
    return add_dhcp_patience(step) if there and before["links"][name].get("leases") else step


# Texts that nmcli does not translate, since it always runs with LC_ALL=C.
AGAIN = """said=$("$0" "$@" 2>&1) && exit 0; rc=$?
case $said in *"base network connection was interrupted"*) sleep 1; exec "$0" "$@" ;; esac
echo "$said"; exit $rc"""


def add_retry(command: list[str]) -> list[str]:
    """Return a command that is repeated if NetworkManager took the parent down meanwhile.

    It starts a VLAN itself as soon as its profile exists. When the parent is restarted, that start ends, and this
    command's as well if it has joined it (seen once in about 20 runs, VLAN on a bond).
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
    """Return a command that keeps a DHCP client running if no server answers.

    After 45 s NetworkManager would remove the address that the kernel got meanwhile, try four times and then pause for
    minutes (seen with 1.42). The profile itself is not changed. 2147483647 is "infinity" in nm-settings-nmcli(5), which
    has none for IPv6 before 1.24. If the profile leaves IPv6 to the kernel (ipv6.method=ignore), 1.42 drops the
    link-local address or its route after nmcli has answered, so both are restored.
    """
    return ["/bin/sh", "-c", ENDURE, *command]
