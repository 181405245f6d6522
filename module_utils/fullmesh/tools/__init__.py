# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""One reader for each tool: its command, and the parser of its output (cases: tests/unit/recorded/tools)."""

from __future__ import annotations
