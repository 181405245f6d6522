# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read facts about a node, with one reader for each tool or file."""

from __future__ import annotations
