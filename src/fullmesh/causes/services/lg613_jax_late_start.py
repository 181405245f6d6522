"""JAX: the program used JAX before it joined the other processes

jax.distributed.initialize() came after another call of JAX, which had already started the backend
with the GPUs of this process only.

**Place:** the program, at the first call of JAX or of a library that uses it

**Prove:** in the traceback, look for imports and calls before jax.distributed.initialize(), such as
jax.devices() or arrays that a module creates when it is imported

**Fix:** Call jax.distributed.initialize() first, before you import modules that create arrays.

**Source:** read: jax distributed.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-613",
    __doc__,
    examples=(
        "RuntimeError: jax.distributed.initialize() must be called before any JAX calls that might "
        "initialise the XLA backend.",
    ),
    patterns=(
        Pattern(
            "jax.distributed.initialize() must be called before",
            r"jax\.distributed\.initialize\(\) must be called before any JAX",
        ),
    ),
    weight=84,
)
