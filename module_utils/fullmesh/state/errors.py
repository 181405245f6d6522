# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Raise the coded errors of an undo. Standard library only."""

from __future__ import annotations

from ..account import AccountError


class UndoError(AccountError):
    """A coded sentence for the user, which a child process with another account's rights passes on."""
