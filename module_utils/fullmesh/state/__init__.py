# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Undo data that a node keeps of Fullmesh's runs."""

from __future__ import annotations
