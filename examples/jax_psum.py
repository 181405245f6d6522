"""Sum over the devices of all nodes with JAX: run ``fullmesh-jax jax_psum.py`` on every node.

``fullmesh-jax`` sets the coordinator's address and the number of this process. JAX itself reads only the first.
"""

from __future__ import annotations

import os
import socket

import jax
import jax.numpy as jnp

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
)
here, everywhere = jax.local_device_count(), jax.device_count()
own = jnp.full((here, 1 << 20), jax.process_index() + 1.0)
total = jax.pmap(lambda part: jax.lax.psum(part, "all"), axis_name="all")(own)
wanted = sum(here * (rank + 1) for rank in range(jax.process_count()))
if not bool((total == wanted).all()):
    raise SystemExit(f"psum gave {total[0, 0]}, expected {wanted}")
place = f"process {jax.process_index()} of {jax.process_count()} on {socket.gethostname()}"
print(f"jax: {place}, {everywhere} devices, the sum is as expected")  # noqa: T201 (the output of the example)
jax.distributed.shutdown()
