# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Packet filter rules as data, and what they do with one packet: the only evaluator of rules, on nodes and controller.

src/fullmesh/netfilter is this directory. Standard library only.
"""

from __future__ import annotations
