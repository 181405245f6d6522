# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run changes that undo themselves unless they are confirmed."""

from __future__ import annotations
