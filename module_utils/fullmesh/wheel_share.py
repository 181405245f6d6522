# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Distribute one large file from node to node, in pieces that are forwarded as soon as they are verified.

The hashes of the pieces come over ssh. The controller gives the file to one node. Every node listens on a data port of
the cluster (which the firewall opens to peers only) and fetches pieces from the nodes above it in a tree. A piece is
only accepted with the controller's hash, so a bad peer can waste time but nothing else. Clients must prove that they
know the run's one-time secret, which is never sent between nodes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

    from .schema.torch import BundlePieces, Fetched, WheelSource

CONTROL = "share.json"
LINE = 4096
CONNECT_SECONDS = 3.0
STALL_SECONDS = 15.0
POLL_SECONDS = 0.02
CLIENTS_MOST = 32
PORT_TRIES = 64
BLOCK = 1 << 18
BATCH = 8  # pieces between two queries of a peer's state


class ShareError(Exception):
    """The reason why a peer gave nothing."""


class SharedFile:
    """The file on this node, complete or partial, and its verified pieces."""

    def __init__(self, path: str, manifest: BundlePieces) -> None:
        self.path, self.part, self.marks = path, path + ".part", path + ".marks"
        self.size, self.piece = manifest["size"], manifest["piece"]
        self.hashes = manifest["pieces"]

    def length(self, number: int) -> int:
        """Return the bytes of a piece. The last one is shorter."""
        return min(self.piece, self.size - number * self.piece)

    def file(self) -> str:
        """Return the path that has the bytes now."""
        return self.path if os.path.exists(self.path) else self.part

    def prepare(self) -> int:
        """Verify the pieces of an earlier run. Return how many are valid."""
        if os.path.exists(self.path) and os.path.getsize(self.path) != self.size:
            os.unlink(self.path)
        if not os.path.exists(self.path):
            handle = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(handle, self.size)
            os.close(handle)
        found = bytearray(len(self.hashes))
        with open(self.file(), "rb") as stream:
            for number in range(len(self.hashes)):
                data = stream.read(self.length(number))
                found[number] = self.proved(number, data)
        if not all(found) and os.path.exists(self.path):
            os.rename(self.path, self.part)
        with open(self.marks, "wb") as stream:
            stream.write(bytes(found))
        return sum(found)

    def proved(self, number: int, data: bytes) -> bool:
        """Return whether the bytes have the controller's hash."""
        return bool(hashlib.sha256(data).hexdigest() == self.hashes[number])

    def have(self) -> bytes:
        """Return one byte per piece, 1 if it is verified."""
        try:
            with open(self.marks, "rb") as stream:
                return stream.read()
        except OSError:
            return bytes(len(self.hashes))

    def keep(self, number: int, data: bytes) -> None:
        """Write a verified piece. The mark is written last, so that missing bytes are never forwarded."""
        write_at_offset(self.part, number * self.piece, data)
        write_at_offset(self.marks, number, b"\1")

    def finish(self) -> None:
        """Flush the complete file to disk and give it its final name."""
        if os.path.exists(self.path):
            return
        handle = os.open(self.part, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(self.part, self.path)


def write_at_offset(path: str, place: int, data: bytes) -> None:
    """Write all bytes at an offset of an existing file."""
    handle = os.open(path, os.O_WRONLY)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(handle, data[done:], place + done)
    finally:
        os.close(handle)


def compute_share_proof(secret: str, nonce: str, name: str) -> str:
    """Return a proof for this nonce and file that requires the secret."""
    return hmac.new(secret.encode(), f"{nonce}\0{name}".encode(), hashlib.sha256).hexdigest()


def read_peer_line(stream: BinaryIO) -> str:
    """Read one line of limited length from the peer."""
    line = stream.readline(LINE)
    if not line.endswith(b"\n"):
        raise ShareError("it hung up")
    return str(line.decode("ascii", "replace").strip())


def listen_on_free_port(address: str, first: int, last: int) -> socket.socket:
    """Listen on a port that the cluster's firewall opens to peers."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ports = random.sample(range(first, last + 1), min(PORT_TRIES, last + 1 - first))
    failed = None
    for port in ports:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            sock.listen(CLIENTS_MOST)
            return sock
        except OSError as error:
            sock.close()
            failed = error
    raise failed or OSError("no port")


def serve_pieces(
    listener: socket.socket, store: SharedFile, secret: str, token: str, seconds: float
) -> None:
    """Serve peers until the control file is removed or replaced, or time is over."""
    control = os.path.join(os.path.dirname(store.path), CONTROL)
    end = time.monotonic() + seconds
    places = threading.BoundedSemaphore(CLIENTS_MOST)
    listener.settimeout(0.5)
    while time.monotonic() < end and read_share_token(control) == token:
        try:
            peer, _ = listener.accept()
        except socket.timeout:  # a TimeoutError only since Python 3.10
            continue
        if not places.acquire(blocking=False):
            peer.close()
            continue
        worker = threading.Thread(target=serve_peer_connection, args=(peer, store, secret, places))
        worker.daemon = True
        worker.start()
    listener.close()


def read_share_token(control: str) -> str:
    """Return the token in the control file, or "" if it is gone."""
    try:
        with open(control) as stream:
            return str(json.load(stream)["token"])
    except (OSError, ValueError, KeyError):
        return ""


def serve_peer_connection(
    peer: socket.socket, store: SharedFile, secret: str, places: threading.BoundedSemaphore
) -> None:
    """Serve one connection. An error ends only this connection."""
    try:
        peer.settimeout(STALL_SECONDS * 2)
        answer_peer(peer, store, secret)
    except (OSError, ValueError, IndexError, ShareError):  # a number that is no piece's, too
        pass
    finally:
        peer.close()
        places.release()


def answer_peer(peer: socket.socket, store: SharedFile, secret: str) -> None:
    """Authenticate the client, then serve pieces.

    ``have K`` waits for more than K of them, ``piece N`` returns its bytes.
    """
    nonce = secrets.token_hex(16)
    peer.sendall(nonce.encode() + b"\n")
    stream = peer.makefile("rb")
    wanted = compute_share_proof(secret, nonce, os.path.basename(store.path))
    if not hmac.compare_digest(read_peer_line(stream), wanted):
        peer.sendall(b"no\n")
        return
    peer.sendall(b"yes\n")
    with open(store.file(), "rb") as data:
        while True:
            word, _, number = read_peer_line(stream).partition(" ")
            if word == "have":
                peer.sendall(wait_for_more_pieces(store, int(number)).hex().encode() + b"\n")
            elif word == "piece" and store.have()[int(number)]:
                send_piece(peer, data.fileno(), store, int(number))
            else:
                return


def wait_for_more_pieces(store: SharedFile, count: int) -> bytes:
    """Return the marks as soon as there are more than *count*, or after 1 s."""
    end = time.monotonic() + 1
    marks = store.have()
    while sum(marks) <= count and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
        marks = store.have()
    return bytes(marks)


def send_piece(peer: socket.socket, handle: int, store: SharedFile, number: int) -> None:
    """Send a piece from the page cache."""
    place, left = number * store.piece, store.length(number)
    while left:
        data = os.pread(handle, min(BLOCK, left), place)
        if not data:
            raise ShareError("the file is shorter than it was")
        peer.sendall(data)
        place, left = place + len(data), left - len(data)


class PieceConnection:
    """A connection to a node that may have pieces."""

    def __init__(self, address: str, port: int, secret: str, name: str) -> None:
        self.sock = socket.create_connection((address, port), CONNECT_SECONDS)
        self.sock.settimeout(STALL_SECONDS)
        self.stream = self.sock.makefile("rb")
        self.sock.sendall(
            compute_share_proof(secret, read_peer_line(self.stream), name).encode() + b"\n"
        )
        if read_peer_line(self.stream) != "yes":
            raise ShareError("it does not know this run's secret or this file")

    def have(self, count: int) -> bytes:
        """Return the peer's marks as soon as there are more than *count*, or after 1 s."""
        self.sock.sendall(f"have {count}\n".encode())
        line = self.stream.readline(1 << 20)
        return bytes.fromhex(line.decode("ascii").strip())

    def piece(self, number: int, length: int) -> bytes:
        """Return the bytes of a piece."""
        self.sock.sendall(f"piece {number}\n".encode())
        data = self.stream.read(length)
        if data is None or len(data) != length:
            raise ShareError("it closed the connection in the middle of a piece")
        return bytes(data)

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()
        self.sock.close()


def pull_pieces(store: SharedFile, peer: PieceConnection, report: Fetched, end: float) -> None:
    """Fetch the peer's pieces until the file is complete. ShareError if it has nothing new for too long."""
    mine, last = bytearray(store.have()), time.monotonic()
    theirs = peer.have(0)
    while not all(mine):
        if time.monotonic() > end:
            raise ShareError("the deadline came")
        wanted = [n for n in range(len(mine)) if not mine[n] and n < len(theirs) and theirs[n]]
        for number in wanted[:BATCH]:
            data = peer.piece(number, store.length(number))
            if not store.proved(number, data):
                report["damaged"] += 1
                raise ShareError("it sent a damaged piece")
            store.keep(number, data)
            mine[number] = 1
            report["bytes"] += len(data)
            last = time.monotonic()
        if not wanted and time.monotonic() - last > STALL_SECONDS:
            raise ShareError(f"it has sent nothing new for {STALL_SECONDS:.0f} s")
        if not all(mine):
            theirs = peer.have(sum(theirs) if len(wanted) <= BATCH else 0)


def fetch_pieces(
    store: SharedFile, sources: list[WheelSource], secret: str, seconds: float
) -> Fetched:
    """Fetch from the nodes above, nearest first.

    After a failure, continue with the next one.

    It ends after a round without progress, and the controller has to help.
    """
    end = time.monotonic() + seconds
    report: Fetched = {
        "changed": False,
        "complete": False,
        "bytes": 0,
        "damaged": 0,
        "from": [],
        "reasons": {},
    }
    while not all(store.have()) and time.monotonic() < end:
        before = sum(store.have())
        for source in sources:
            if all(store.have()) or time.monotonic() > end:
                break
            had = report["bytes"]
            try:
                peer = PieceConnection(
                    source["address"], source["port"], secret, os.path.basename(store.path)
                )
                try:
                    pull_pieces(store, peer, report, end)
                finally:
                    peer.close()
            except (OSError, ShareError, ValueError) as error:
                report["reasons"][source["name"]] = str(error) or type(error).__name__
            if report["bytes"] > had and source["name"] not in report["from"]:
                report["from"].append(source["name"])
        if sum(store.have()) == before:
            break
    report["changed"] = report["bytes"] > 0
    report["complete"] = all(store.have())
    if report["complete"]:
        store.finish()
    return report
