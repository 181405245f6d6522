# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Model packet filter rules and evaluate them for a packet, on nodes and on the controller.

src/fullmesh/netfilter is this directory. Standard library only.
"""

from __future__ import annotations
