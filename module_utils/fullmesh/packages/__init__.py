# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""apt's and dnf's sources and locks."""

from __future__ import annotations
