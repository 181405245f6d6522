"""Check the settings of role selinux_mode."""

from __future__ import annotations

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal

CODES: dict[str, str] = {
    "SE-101": "selinux_mode is not one of the four",
    "SE-102": "selinux_mode_rollback_seconds is too short for a new connection",
    "SE-103": "selinux_mode_reboot_timeout_seconds is too short for a boot",
    "SE-110": "The SELinux policy is not installed, so the node would not boot",
    "SE-111": "The kernel did not accept the mode",
    "SE-112": "The guard that reverts SELinux could not be started",
    "SE-113": "No connection confirmed the mode in time, so the node is permissive again",
    "SE-114": "No new connection could be made after switching to enforcing",
    "SE-115": "The node did not come back after its reboot",
    "SE-116": "A node before this one did not come back, so this one was not rebooted",
    "SE-117": "The node came back without the configured mode",
    "SE-201": "The system has no SELinux, so nothing was done",
    "SE-202": "SELinux is not enforcing and was left unchanged, as configured",
    "SE-203": "SELinux was made permissive or disabled, as configured",
    "SE-204": "The mode takes effect at the next boot",
    "SE-205": "The kernel of this container has no SELinux, so only the file was set",
    "SE-206": "The kernel command line disables SELinux regardless of the file",
}

MODES = ("enforcing", "permissive", "disabled", "keep")
SHORTEST_ROLLBACK = 20  # a new ssh connection takes 2 to 5 s on a loaded node


# a server's firmware alone needs minutes, and files may be relabeled
SHORTEST_REBOOT = 60


def find_selinux_faults(
    selinux_mode: object, rollback_seconds: object, reboot_timeout_seconds: object = 1800
) -> list[Fault]:
    """Return all faults in the input at once."""
    found = []
    if selinux_mode not in MODES:
        found.append(
            Fault(
                "SE-101", f"selinux_mode is {selinux_mode!r}", f"Choose one of {', '.join(MODES)}"
            )
        )
    number = parse_decimal(str(rollback_seconds))
    if number is None or 0 < number < SHORTEST_ROLLBACK:
        text = f"selinux_mode_rollback_seconds is {rollback_seconds!r}"
        step = f"Use {SHORTEST_ROLLBACK} or more, or 0 for no rollback"
        found.append(Fault("SE-102", text, step))
    if parse_decimal(str(reboot_timeout_seconds), least=SHORTEST_REBOOT) is None:
        text = f"selinux_mode_reboot_timeout_seconds is {reboot_timeout_seconds!r}"
        found.append(Fault("SE-103", text, f"Use {SHORTEST_REBOOT} or more"))
    return found
