# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Share code between modules on nodes: standard library only, Python 3.9 to 3.13, relative imports."""

from __future__ import annotations
