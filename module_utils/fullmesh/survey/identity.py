# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Collect identifiers of a machine as digests: no key or id leaves the node."""

from __future__ import annotations

import base64
import glob
import hashlib
from typing import TYPE_CHECKING

from .net import read_kernel_file

if TYPE_CHECKING:
    from ..schema.survey import NodeIdentity

MACHINE_ID = "/etc/machine-id"
HOST_KEYS = "/etc/ssh/ssh_host_*_key.pub"
DIGITS = 32  # of a machine-id (before the first boot ends it is empty or "uninitialized")


def hash_machine_id() -> str:
    """Return a digest of the machine-id, or "". The id itself must stay confidential (machine-id(5))."""
    text = read_kernel_file(MACHINE_ID)
    whole = len(text) == DIGITS and set(text) <= set("0123456789abcdef")
    return hashlib.sha256(b"fullmesh " + text.encode()).hexdigest() if whole else ""


def compute_fingerprint(line: str) -> str:
    """Return a public key's fingerprint as ``ssh-keygen -l`` prints it, or "" for other lines."""
    fields = line.split()
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except (IndexError, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def survey_identity() -> NodeIdentity:
    """Return the machine's id and the fingerprints of its host keys."""
    keys = {compute_fingerprint(read_kernel_file(path)) for path in glob.glob(HOST_KEYS)}
    return {"machine_id": hash_machine_id(), "host_keys": sorted(keys - {""})}
