# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""firewalld, ufw, and the rules of others."""

from __future__ import annotations
