"""``python -m fullmesh``."""

import sys

from fullmesh.cli import main

sys.exit(main())
