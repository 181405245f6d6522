# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a node does with a question that came without Ansible's own modules."""

from __future__ import annotations
