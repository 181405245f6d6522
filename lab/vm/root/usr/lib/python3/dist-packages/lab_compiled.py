"""Keeps what Python compiles of the modules in a zip file, which it does not do by itself.

Ansible hands a module over as a zip file of sources. An emulated processor compiles them for 0.9 s of the 2.4 s that a
task takes (measured); a real one for 0.1 s, so only the virtual machines have this. Kept in memory, so that no power
cut leaves half a file; looked up by the source itself, so that a changed module is compiled anew.
"""

from __future__ import annotations

import _imp
import marshal
import os
import zipimport

FOLDER = "/run/lab-compiled"
# As Python tells its own compiled files by their source (PEP 552); any key will do.
KEY = 79
# Private, as a zip file's loader cannot be replaced; the images' Python never changes without these images.
COMPILE = zipimport._compile_source


def kept(pathname: str, source: bytes) -> object:
    """Return the code of a module, compiled now or earlier."""
    inside = pathname.rpartition(".zip")[2].encode()
    file = os.path.join(FOLDER, _imp.source_hash(KEY, inside + b"\0" + source).hex())
    try:
        with open(file, "rb") as stream:
            return marshal.loads(stream.read())  # noqa: S302 (only root writes there)
    except (OSError, EOFError, ValueError, TypeError):
        code = COMPILE(pathname, source)
    part = f"{file}.{os.getpid()}"
    try:
        os.makedirs(FOLDER, 0o700, exist_ok=True)
        with open(part, "wb") as stream:
            stream.write(marshal.dumps(code))
        os.rename(part, file)
    except OSError:
        return code
    return code


# nobody else may hand us code
if os.getuid() == 0:
    zipimport._compile_source = kept
