"""Errors of the lab. An error with a code is due to the user or the machine, one without a code is a failed step."""

from __future__ import annotations


class LabError(Exception):
    """A usage or environment problem: exit code 2."""

    def __init__(self, code: str, what: str, next_step: str) -> None:
        """Store the problem *what* (with the value seen) and its fix *next_step*."""
        super().__init__(f"[{code}] {what}. {next_step}")
        self.code = code


class StepError(Exception):
    """A step failed unexpectedly: exit code 1. The text names the log file."""


CODES = {
    "LB-101": "The lab needs root",
    "LB-102": "Programs are missing and this system is neither Debian nor Ubuntu",
    "LB-103": "apt-get could not install the packages that the lab needs",
    "LB-104": "The lab's name is not valid",
    "LB-105": "A lab cannot have so many nodes",
    "LB-106": "The lab has no node of this name",
    "LB-107": "No lab has this name, or the node does not run",
    "LB-108": "No subnet is free, or the lab's own is now used by another program",
    "LB-109": "FULLMESH_LAB_IMAGES has an unknown value",
    "LB-110": "The lab's sources are not in the checkout",
    "LB-112": "Another lab command holds a lock for too long",
    "LB-113": "The lab does not have this node family",
    "LB-114": "The options would turn an existing lab into another one",
    "LB-115": "`--purge` is used while labs are up",
    "LB-116": "`lab exec` has no command",
    "LB-117": "This machine has too few inotify instances left for more nodes",
    "LB-118": "The lab does not have simulated GPUs of this kind",
    "LB-119": "The simulated GPUs do not have such a setting",
    "LB-120": "This system is not Linux, and the lab needs Linux",
    "LB-130": "No virtual machines have this name",
    "LB-131": "This machine is not x86-64, and virtual machines need it",
}
