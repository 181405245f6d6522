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
    "LB-101": "the lab needs root",
    "LB-102": "programs are missing and this system is neither Debian nor Ubuntu",
    "LB-103": "apt-get could not install the packages that the lab needs",
    "LB-104": "the lab's name is not valid",
    "LB-105": "a lab cannot have so many nodes",
    "LB-106": "the lab has no node of this name",
    "LB-107": "no lab has this name, or the node does not run",
    "LB-108": "no subnet is free, or the lab's own is now used by another program",
    "LB-109": "FULLMESH_LAB_IMAGES has an unknown value",
    "LB-110": "the lab's sources are not in the checkout",
    "LB-112": "another lab command holds a lock for too long",
    "LB-113": "the lab does not have this node family",
    "LB-114": "the options would turn an existing lab into another one",
    "LB-115": "--purge is used while labs are up",
    "LB-116": "lab exec has no command",
    "LB-117": "this machine has too few inotify instances left for more nodes",
    "LB-118": "the lab does not have simulated GPUs of this kind",
    "LB-119": "the stand-in for GPUs does not know a line",
    "LB-120": "this system is not Linux, and the lab needs Linux",
    "LB-130": "no virtual machines have this name",
    "LB-131": "this machine is not x86-64, and virtual machines need it",
}
