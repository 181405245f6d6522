# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Listeners, connections and ranks of a verification."""

from __future__ import annotations
