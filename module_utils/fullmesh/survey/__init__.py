# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""All that a diagnosis reads on a node."""

from __future__ import annotations
