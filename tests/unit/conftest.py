"""Node modules import their helpers as ``ansible.module_utils.fullmesh_*``, as they do on a node."""

from pathlib import Path

import ansible.module_utils
from hypothesis import HealthCheck, settings

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))

# How long an example takes on a loaded machine says nothing about the code: no deadline, no check of the generator's
# speed (its first example took 1.1 s beside two other processes and failed the run).
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
