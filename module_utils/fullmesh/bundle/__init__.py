# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make and open the archive for an installation without a network."""

from __future__ import annotations
