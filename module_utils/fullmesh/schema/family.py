# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The packages of one family, as package_family returns them."""

from __future__ import annotations

from typing import TypedDict


class KeptPackage(TypedDict):
    """A package that an undo leaves, because the packages in ``needed_by`` stay and need it."""

    package: str
    needed_by: list[str]


class PackageFamily(TypedDict):
    """The packages on the node, and the steps of an undo.

    Attributes:
        versions: package -> version, in the package manager's format: dpkg's ``NAME`` or ``NAME:ARCH``, with rpm
            ``NAME.ARCH`` and ``EPOCH:VERSION-RELEASE``.
        locks: with rpm, bare name -> ``VERSION-RELEASE``, as in dnf's list of locks. Empty with dpkg.
        streams: dnf module -> enabled stream.
        install: packages that were removed or changed, as arguments of apt or dnf with their versions.
        remove: packages that came with the role and can go without packages of others.
        needed: packages that came with the role and stay, because others need them.
        kept: packages that others have changed since. They stay.
    """

    versions: dict[str, str]
    locks: dict[str, str]
    streams: dict[str, str]
    install: list[str]
    remove: list[str]
    needed: list[KeptPackage]
    kept: list[str]
