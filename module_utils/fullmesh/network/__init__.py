# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Interfaces, addresses and routes."""

from __future__ import annotations
