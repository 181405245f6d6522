"""What these test are node modules, imported as on a node."""

from __future__ import annotations

from pathlib import Path

import ansible.module_utils

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))
