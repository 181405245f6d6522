# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Readers of a node: one for each tool or file."""

from __future__ import annotations
