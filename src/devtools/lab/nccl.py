"""Extract NVIDIA's own NCCL library from its wheel, without the device code, for the lab's packages."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

from devtools.lab.errors import StepError

LIBRARY, HEADER = "nvidia/nccl/lib/libnccl.so.2", "nvidia/nccl/include/nccl.h"
# ELF sections with GPU code: 300 MB that no lab node can run.
DEVICE_SECTIONS = ("__nv_relfatbin", ".nv_fatbin")
VERSION = re.compile(rb"NCCL version (\d+\.\d+\.\d+)\+cuda(\d+\.\d+)")

# Bytes: small enough to find holes, large enough to be fast.
BLOCK = 65536

# Offsets in the ELF64 format (elf(5)): section table, entry size, number of sections, index of the names.
SECTION_TABLE_OFFSET, SECTION_SIZES_OFFSET = 0x28, 0x3A


def zero_device_code(image: bytearray) -> int:
    """Overwrite the device code in an ELF image with zeros; return the number of bytes.

    The host code does not change, so the library loads and answers ncclGetVersion and ncclGetUniqueId.
    """
    (table,) = struct.unpack_from("<Q", image, SECTION_TABLE_OFFSET)
    size, number, names_index = struct.unpack_from("<HHH", image, SECTION_SIZES_OFFSET)
    sections = [struct.unpack_from("<IIQQQQ", image, table + i * size) for i in range(number)]
    names = sections[names_index][4]
    zeroed = 0
    for name_offset, _kind, _flags, _address, offset, length in sections:
        start = names + name_offset
        name = bytes(image[start : image.index(0, start)]).decode()
        if name in DEVICE_SECTIONS:
            image[offset : offset + length] = bytes(length)
            zeroed += length
    return zeroed


def package_version(image: bytes | bytearray) -> str:
    """Return NVIDIA's package version from the library itself: ``2.30.7-1+cuda12.9``."""
    match = VERSION.search(image)
    if match is None:
        raise StepError("the library does not state its version as 'NCCL version X+cudaY'")
    return f"{match[1].decode()}-1+cuda{match[2].decode()}"


def write_sparse(file: Path, image: bytes | bytearray) -> None:
    """Write *image* with holes for zeros, which takes a fifth of the disk space."""
    with file.open("wb") as out:
        for start in range(0, len(image), BLOCK):
            block = image[start : start + BLOCK]
            if any(block):
                out.seek(start)
                out.write(block)
        out.truncate(len(image))


def unpack(wheel: Path, folder: Path) -> str:
    """Write library, header and VERSION from *wheel* into a sub-folder; return the version."""
    with zipfile.ZipFile(wheel) as archive:
        image = bytearray(archive.read(LIBRARY))
        header = archive.read(HEADER)
    version = package_version(image)
    zero_device_code(image)
    target = folder / version
    target.mkdir(parents=True)
    write_sparse(target / "libnccl.so.2", image)
    (target / "nccl.h").write_bytes(header)
    (target / "VERSION").write_text(version + "\n")
    return version
