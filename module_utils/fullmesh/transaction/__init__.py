# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Changes that undo themselves unless they are confirmed."""

from __future__ import annotations
