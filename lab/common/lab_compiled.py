"""Keeps the compiled form of what a lab node's Python imports from a zip: Ansible's modules, at every call.

Half a module's time is Python compiling the same 51 files of Ansible anew, since zipimport keeps no byte code: 0.31 s a
call, 0.17 s with it (`stat`, 2 cores). All nodes of all labs share two cores, so a run over them pays for all of that.
Only where the lab has mounted the folder: what others do with a node's image, and `lab up --no-compiled`, go without.
Read by site.py at the start of every Python (lab-compiled.pth), so nothing is imported here that is not there anyway.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport

FOLDER = "/var/cache/lab-compiled"


def install(folder=FOLDER):
    """Put ourselves between zipimport and the compiler, where there is a folder to keep things in."""
    if os.path.isdir(folder):
        plain = zipimport._compile_source
        zipimport._compile_source = lambda path, source: kept(folder, path, source, plain)


def kept(folder, path, source, plain):
    """Return the code of a source: the one that is kept, else *plain*'s, which is kept from now on.

    By the source's own digest, so nothing can be out of date. Whatever is wrong with the folder costs time only.
    """
    import hashlib  # noqa: PLC0415  two milliseconds, which no other Python of a node should spend

    digest = hashlib.blake2b(source, digest_size=20).hexdigest()
    name = f"{folder}/{sys.implementation.cache_tag}-{digest}"
    try:
        with open(name, "rb") as handle:
            code = marshal.loads(handle.read())  # noqa: S302  written by ourselves, as root, into a folder of root's
        # as importlib does for .pyc files: a traceback names this call's place, not that of the first
        _imp._fix_co_filename(code, path)
        return code
    except (OSError, ValueError, EOFError, TypeError):
        code = plain(path, source)
    # random: processes of different containers have the same number
    part = f"{folder}/.{os.urandom(8).hex()}"
    try:
        with open(part, "wb") as handle:
            handle.write(marshal.dumps(code))
        os.replace(part, name)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
    return code
