# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Survey a node for a diagnosis."""

from __future__ import annotations
