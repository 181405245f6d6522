# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read apt's and dnf's sources and locks."""

from __future__ import annotations
