# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What modules say, as types: written on nodes, read on the controller (src/fullmesh/observed is this directory).

TypedDicts, since a module's answer is JSON and stays plain data on both sides. Standard library only. A class with
``total=False`` holds the keys that may be missing.
"""

from __future__ import annotations
