# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Write the files of each network owner."""

from __future__ import annotations
