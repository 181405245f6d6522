"""Choose the source of node images: look-alikes built from Debian packages, or a registry's real ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devtools.lab.errors import LabError
from devtools.lab.plan import DEBIAN, FAMILIES, IMAGES, REAL, REAL_IMAGES

VARIABLE = "FULLMESH_LAB_IMAGES"
CHOICES = ("lookalike", "registry")

LOOKALIKE_NOTE = (
    "Look-alike images: CentOS Stream 9's and Ubuntu 24.04's tools, names, paths and package formats on "
    "Debian 12's binaries."
)
DEBIAN_NOTE = "Debian's own packages, unmodified, in containers."
SYSCTL_NOTE = (
    "Machine-wide kernel settings (vm.*, kernel.*, fs.*, net.core.rmem_max and the like) are private "
    "copies in every node: they can be set and read back, and change nothing in this host's kernel."
)


@dataclass(frozen=True)
class Source:
    """The origin of a lab's images.

    Attributes:
        kind: ``lookalike``, ``registry`` or ``debian`` (no other system).
        note: the sentence for every report.
        images: the image of each family.
        families: those of the nodes.
    """

    kind: str
    note: str
    images: Mapping[str, str] = field(default_factory=lambda: dict(IMAGES))
    families: tuple[str, ...] = FAMILIES


def describe_real_images(families: Sequence[str], images: Mapping[str, str]) -> str:
    """Return the sentence about the images of a registry."""
    return f"Real images: {', '.join(REAL[images[family]].reference for family in families)}."


def parse_real_images(text: str) -> dict[str, str]:
    """Return family -> image of a list such as ``rocky9,ubuntu22.04``. LB-109 for an unknown or second one."""
    found: dict[str, str] = {}
    for name in text.split(","):
        image = REAL.get(name.strip())
        if image is None or image.family in found:
            known = ", ".join([*CHOICES, *REAL])
            raise LabError(
                "LB-109",
                f"{VARIABLE}={text!r} is not known",
                f"Use one of {known}, or one image of each family, separated by a comma.",
            )
        found[image.family] = name.strip()
    return found


def choose_image_source(families: Sequence[str] | None = None) -> Source:
    """Return the source of the images of *families*, which default to those of FULLMESH_LAB_IMAGES.

    Raises:
        LabError: the variable has an unknown value, or Debian is requested from a registry (LB-109).
    """
    wanted = tuple(families or FAMILIES)
    if set(wanted) <= set(DEBIAN):
        return Source("debian", f"{DEBIAN_NOTE} {SYSCTL_NOTE}", families=wanted)
    choice = os.environ.get(VARIABLE) or "lookalike"
    if choice == "lookalike":
        return Source(choice, f"{LOOKALIKE_NOTE} {SYSCTL_NOTE}", families=wanted)
    if set(wanted) & set(DEBIAN):
        raise LabError(
            "LB-109",
            f"{VARIABLE}={choice!r} has no Debian, and the lab has {', '.join(wanted)}",
            "Start Debian nodes in a lab of their own.",
        )
    named = {} if choice == "registry" else parse_real_images(choice)
    wanted = tuple(families or named or FAMILIES)
    images = {**REAL_IMAGES, **named}
    note = describe_real_images(wanted, images)
    return Source("registry", f"{note} {SYSCTL_NOTE}", images, wanted)
