# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a node keeps of our runs."""

from __future__ import annotations
