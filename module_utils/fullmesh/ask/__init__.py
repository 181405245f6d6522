# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Answer queries on a node without Ansible's own modules."""

from __future__ import annotations
