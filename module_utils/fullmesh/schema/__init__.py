# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define the answers of modules as types: written on nodes, read on the controller.

src/fullmesh/observed is this directory. The types are TypedDicts, since an answer is JSON and stays plain data on both
sides. Standard library only. Classes with ``total=False`` have the optional keys.
"""

from __future__ import annotations
