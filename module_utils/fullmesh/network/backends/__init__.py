# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A writer for each owner of interfaces."""

from __future__ import annotations
