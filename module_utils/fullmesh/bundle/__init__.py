# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What an installation without a network needs, on the machine that makes or opens its archive."""

from __future__ import annotations
