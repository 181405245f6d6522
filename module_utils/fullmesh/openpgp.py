"""Compute the fingerprints of OpenPGP public keys without gpg, which a minimal machine may not have.

RFC 4880 (and 9580 for what is old): armor 6.2, packet headers 4.2, the fingerprint of a version 4 key 12.2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

BEGIN, END = b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----END PGP PUBLIC KEY BLOCK-----"
PUBLIC_KEY = 6  # the tag of a primary key (a signature binds subkeys to it, which is checked when the key is used)
VERSION = 4
ONE_BYTE, TWO_BYTES, FOUR_BYTES = 192, 224, 255
ANY = "any"  # instead of a fingerprint: the user named the key, so the user vouches for it


def decode_armor(raw: bytes) -> bytes:
    """Return the bytes of the packets, without their armor if they have one."""
    if BEGIN not in raw:
        return raw
    found = b""
    for block in raw.split(BEGIN)[1:]:
        head, _, body = block.partition(END)[0].replace(b"\r", b"").partition(b"\n\n")
        if not body:
            raise ValueError(f"the armor has no body, or no empty line before it: {head[:40]!r}")
        lines = [line for line in body.split(b"\n") if not line.startswith(b"=")]
        try:
            found += base64.b64decode(b"".join(lines), validate=True)
        except binascii.Error as exc:
            raise ValueError(f"the armor holds no base64: {exc}") from exc
    return found


def parse_packet_header(raw: bytes, at: int) -> tuple[int, int, int]:
    """Return (tag, start of the body, end of the body) of the packet at *at*."""
    first = raw[at]
    if not first & 0x80:
        raise ValueError(f"this is not an OpenPGP key: byte {at} is {first:#x}")
    if first & 0x40:
        size = raw[at + 1]
        if size < ONE_BYTE:
            return first & 63, at + 2, at + 2 + size
        if size < TWO_BYTES:
            return first & 63, at + 3, at + 3 + ((size - ONE_BYTE) << 8) + raw[at + 2] + ONE_BYTE
        if size == FOUR_BYTES:
            return first & 63, at + 6, at + 6 + int.from_bytes(raw[at + 2 : at + 6], "big")
        raise ValueError("it has a packet with partial lengths, which keys do not have")
    width = 1 << (first & 3)
    if width == 8:  # noqa: PLR2004 (length type 3: no length at all)
        raise ValueError("it has a packet without a length, which keys do not have")
    begin = at + 1 + width
    return (first >> 2) & 15, begin, begin + int.from_bytes(raw[at + 1 : begin], "big")


def list_fingerprints(key: bytes) -> list[str]:
    """Return the fingerprints of all primary keys in a file, in capitals.

    Raises:
        ValueError: it is not a public key, or of a different kind than repositories use.
    """
    raw = decode_armor(key)
    found, at = [], 0
    try:
        while at < len(raw):
            tag, begin, end = parse_packet_header(raw, at)
            if end > len(raw):
                raise IndexError
            if tag == PUBLIC_KEY:
                body = raw[begin:end]
                if body[0] != VERSION:
                    raise ValueError(f"a key of version {body[0]}, but only 4 is supported")
                frame = b"\x99" + len(body).to_bytes(2, "big")
                # version 4 uses SHA-1, and the known attacks do not give a second key with a given fingerprint
                found.append(hashlib.sha1(frame + body).hexdigest().upper())  # noqa: S324
            at = end
    except IndexError:
        raise ValueError("the key ends in the middle of a packet") from None
    if not found:
        raise ValueError("there is no public key in it")
    return found


def describe_mismatch(key: bytes, expected: list[str]) -> str:
    """Compare the primary keys in a file with the expected fingerprints.

    Return "" if all of them are expected.

    Args:
        key: the bytes of the file.
        expected: fingerprints, with or without spaces. `ANY` accepts every key, an empty list accepts none.

    Raises:
        ValueError: the file is not a public key, or of a different kind than repositories use.
    """
    seen = list_fingerprints(key)
    wanted = [one.replace(" ", "").upper() for one in expected]
    if ANY.upper() in wanted or set(seen) <= set(wanted):
        return ""
    return "has the fingerprint {}, expected: {}".format(
        ", ".join(seen), " or ".join(wanted) or "not known to Fullmesh"
    )
