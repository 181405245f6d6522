# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Packages of one family: what package_family returns."""

from __future__ import annotations

from typing import TypedDict


class KeptPackage(TypedDict):
    """A package that an undo leaves, because the packages in ``needed_by`` stay and need it."""

    package: str
    needed_by: list[str]


class PackageFamily(TypedDict):
    """What the node has, and what an undo has to do about it.

    Attributes:
        versions: package -> version, as the package manager takes both back: dpkg's ``NAME`` or ``NAME:ARCH``; with rpm
            ``NAME.ARCH`` and ``EPOCH:VERSION-RELEASE``.
        locks: with rpm, bare name -> ``VERSION-RELEASE``, as dnf's list of locks takes them; empty with dpkg.
        streams: module of dnf -> the stream that is enabled.
        install: what was here before and is not any more, as an argument of apt or dnf with its version.
        remove: what came with the role, and can go without a package of others.
        needed: what came with the role and stays, because others need it.
        kept: what somebody else has changed since; it stays.
    """

    versions: dict[str, str]
    locks: dict[str, str]
    streams: dict[str, str]
    install: list[str]
    remove: list[str]
    needed: list[KeptPackage]
    kept: list[str]
