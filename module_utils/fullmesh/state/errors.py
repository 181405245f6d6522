# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What an undo refuses, in a coded sentence. Stdlib only."""

from __future__ import annotations


class UndoError(Exception):
    """A coded sentence for the user."""
