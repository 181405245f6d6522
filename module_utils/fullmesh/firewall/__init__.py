# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage firewalld and ufw, and keep the rules of others."""

from __future__ import annotations
