# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the listeners, connections and ranks of a verification."""

from __future__ import annotations
