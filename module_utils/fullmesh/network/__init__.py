# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage interfaces, addresses and routes."""

from __future__ import annotations
