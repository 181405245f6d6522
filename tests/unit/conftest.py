"""Node modules import their helpers as ``ansible.module_utils.fullmesh_*``, as they do on a node."""

from pathlib import Path

import ansible.module_utils

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))
