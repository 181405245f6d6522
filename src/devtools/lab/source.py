"""Choose the source of node images: a registry's real ones, or look-alikes built from Debian packages."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devtools.lab.errors import LabError
from devtools.lab.plan import DEBIAN, FAMILIES

VARIABLE = "FULLMESH_LAB_IMAGES"
CHOICES = ("auto", "lookalike", "registry")
# The registries' own API roots. 200 and 401 both mean that the registry answers.
PROBES = ("https://quay.io/v2/", "https://registry-1.docker.io/v2/")
PROBE_SECONDS = 5.0
REMEMBER_SECONDS = 24 * 3600.0
UNAUTHORIZED = 401

LOOKALIKE_NOTE = (
    "Look-alike images: CentOS Stream 9's and Ubuntu 24.04's tools, names, paths and package formats on "
    "Debian 12's binaries, built here because no container registry answered."
)
REGISTRY_NOTE = "Real images: quay.io/centos/centos:stream9 and docker.io/library/ubuntu:24.04."
DEBIAN_NOTE = "Debian's own packages, unmodified, in containers."
SYSCTL_NOTE = (
    "Machine-wide kernel settings (vm.*, kernel.*, fs.*, net.core.rmem_max and the like) are private "
    "copies in every node: they can be set and read back, and change nothing in this host's kernel."
)


@dataclass(frozen=True)
class Source:
    """The kind ``lookalike``, ``registry`` or ``debian`` (no other system), and the sentence for every report."""

    kind: str
    note: str


def make(kind: str) -> Source:
    """Return the source with its note."""
    notes = {"registry": REGISTRY_NOTE, "lookalike": LOOKALIKE_NOTE, "debian": DEBIAN_NOTE}
    return Source(kind, f"{notes[kind]} {SYSCTL_NOTE}")


def answers(url: str) -> bool:
    """Return whether a registry's API answers within the deadline."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS):  # noqa: S310  # https, fixed above
            return True
    except urllib.error.HTTPError as error:
        return error.code == UNAUTHORIZED
    except (OSError, ValueError):
        return False


def remembered(file: Path, now: float) -> str | None:
    """Return the last probe's result if it is younger than a day."""
    try:
        found = json.loads(file.read_text())
        fresh = 0 <= now - float(found["time"]) < REMEMBER_SECONDS
    except (OSError, ValueError, KeyError):
        return None
    return str(found["kind"]) if fresh and found["kind"] in CHOICES[1:] else None


def choose_image_source(file: Path, families: Sequence[str] = FAMILIES) -> Source:
    """Return the source of the families' images; *file* caches the probe. LB-109 on a bad FULLMESH_LAB_IMAGES."""
    if set(families) <= set(DEBIAN):
        return make("debian")
    choice = os.environ.get(VARIABLE) or "auto"
    if choice not in CHOICES:
        raise LabError(
            "LB-109", f"{VARIABLE}={choice!r} is not known", f"Use one of {', '.join(CHOICES)}."
        )
    if choice != "auto":
        return make(choice)
    now = time.time()
    kind = remembered(file, now)
    if kind is None:
        kind = "registry" if all(answers(url) for url in PROBES) else "lookalike"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"kind": kind, "time": now}) + "\n")
    return make(kind)
