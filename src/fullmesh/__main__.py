"""Run ``python -m fullmesh``."""

from __future__ import annotations

import sys

from fullmesh.cli import main

sys.exit(main())
