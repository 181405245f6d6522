"""Remove device code from a library, and read its version."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from devtools.lab import nccl
from devtools.lab.errors import StepError

HOST, DEVICE = b"NCCL version 2.28.9+cuda12.9\0", b"\xff" * 64


def build_elf_image() -> bytearray:
    """Return the smallest ELF image with a host section, a device section and the section names."""
    names = b"\0.text\0.nv_fatbin\0.shstrtab\0"
    bodies = [(1, HOST), (7, DEVICE), (18, names)]
    image = bytearray(64)
    table = [bytes(64)]
    for name, body in bodies:
        header = struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, len(image), len(body), 0, 0, 0, 0)
        table.append(header)
        image += body
    struct.pack_into("<Q", image, 0x28, len(image))
    struct.pack_into("<HHH", image, 0x3A, 64, len(table), 3)
    return image + b"".join(table)


def test_only_device_code_is_zeroed() -> None:
    image = build_elf_image()
    assert nccl.zero_device_code(image) == len(DEVICE)
    assert HOST in image
    assert b"\xff" not in image


def test_version_is_read_from_the_library() -> None:
    assert nccl.package_version(HOST) == "2.28.9-1+cuda12.9"


def test_library_without_a_version_is_reported() -> None:
    with pytest.raises(StepError, match="does not state its version"):
        nccl.package_version(b"nothing")


def test_zeros_are_written_sparsely(tmp_path: Path) -> None:
    image = b"a" + bytes(8 * nccl.BLOCK) + b"b" + bytes(9)
    nccl.write_sparse(tmp_path / "x", image)
    assert (tmp_path / "x").read_bytes() == image
    assert (tmp_path / "x").stat().st_blocks * 512 < len(image)


def test_wheel_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(nccl.LIBRARY, bytes(build_elf_image()))
        archive.writestr(nccl.HEADER, "// header")
    assert nccl.unpack(wheel, tmp_path / "out") == "2.28.9-1+cuda12.9"
    folder = tmp_path / "out" / "2.28.9-1+cuda12.9"
    assert sorted(file.name for file in folder.iterdir()) == ["VERSION", "libnccl.so.2", "nccl.h"]
