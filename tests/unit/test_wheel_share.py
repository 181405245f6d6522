"""From node to node over real sockets: every node is an address of this machine's loopback and a folder."""

from __future__ import annotations

import collections
import hashlib
import importlib
import json
import os
import random
import socket
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import wheel_share
from ansible.module_utils.fullmesh import torch_env, wheelhouse
from hypothesis import given
from hypothesis import strategies as st
from torch_samples import make_node, wheels

from fullmesh.roles import torch_runtime

share = importlib.import_module("ansible.module_utils.fullmesh.wheel_share")
SECRET = "s" * 64
PIECE = 1000
DATA = bytes(n * 7 % 251 for n in range(20_500))
MANIFEST = {
    "size": len(DATA),
    "piece": PIECE,
    "pieces": [
        hashlib.sha256(DATA[at : at + PIECE]).hexdigest() for at in range(0, len(DATA), PIECE)
    ],
}


class Node:
    """A folder, an address, and the helper that serves from it."""

    def __init__(self, base: Path, number: int, manifest: dict[str, Any], name: str) -> None:
        self.name, self.address = f"n{number}", f"127.0.0.{number + 1}"
        self.folder = base / self.name
        self.folder.mkdir(exist_ok=True)
        self.store = share.SharedFile(str(self.folder / name), manifest)
        self.port = 0

    def serve(self, secret: str = SECRET) -> Node:
        self.store.prepare()
        listener = share.listen_on_free_port(self.address, 50000, 54095)
        self.port = listener.getsockname()[1]
        (self.folder / share.CONTROL).write_text('{"token": "t"}')
        self.thread = threading.Thread(
            target=share.serve_pieces, args=(listener, self.store, secret, "t", 60.0), daemon=True
        )
        self.thread.start()
        return self

    def source(self) -> dict[str, Any]:
        return {"name": self.name, "address": self.address, "port": self.port}

    def fetch(self, *nodes: Node, secret: str = SECRET) -> dict[str, Any]:
        return dict(share.fetch_pieces(self.store, [n.source() for n in nodes], secret, 30.0))


Maker = Callable[..., Node]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Makes nodes; their helpers end with the test."""
    monkeypatch.setattr(share, "STALL_SECONDS", 2.0)
    made: list[Node] = []

    def make(
        number: int, data: bytes = b"", manifest: dict[str, Any] = MANIFEST, name: str = "b.tar"
    ) -> Node:
        made.append(Node(tmp_path, number, manifest, name))
        if data:
            (made[-1].folder / name).write_bytes(data)
        return made[-1]

    yield make
    for one in made:
        (one.folder / share.CONTROL).unlink(missing_ok=True)
    for one in made:
        if one.port:
            one.thread.join(10)
            assert not one.thread.is_alive()


def has_whole_file(one: Node) -> bool:
    return Path(one.store.path).read_bytes() == DATA


def fetch_together(nodes: list[Node]) -> list[dict[str, Any]]:
    """All but the first fetch at the same time, each from those above it."""
    reports: dict[int, dict[str, Any]] = {}

    def one(place: int) -> None:
        reports[place] = nodes[place].fetch(
            *(nodes[n] for n in torch_runtime.order_bundle_sources(place, len(nodes)))
        )

    threads = [threading.Thread(target=one, args=(place,)) for place in range(1, len(nodes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [reports[place] for place in range(1, len(nodes))]


def test_eight_nodes_get_it_and_none_sends_it_thrice(node: Maker) -> None:
    nodes = [node(0, DATA).serve(), *(node(n).serve() for n in range(1, 8))]
    reports = fetch_together(nodes)
    assert all(report["complete"] and not report["reasons"] for report in reports)
    assert all(has_whole_file(one) for one in nodes)
    gave = collections.Counter(name for report in reports for name in report["from"])
    assert max(gave.values()) == torch_runtime.FAN_OUT
    assert sum(report["bytes"] for report in reports) == 7 * len(DATA)


def test_a_piece_is_passed_on_before_the_file_is_complete(node: Maker) -> None:
    middle = node(1).serve()
    middle.store.keep(0, DATA[:PIECE])
    last = node(2)
    last.store.prepare()
    report = last.fetch(middle)
    assert (report["complete"], report["bytes"], last.store.have()[0]) == (False, PIECE, 1)
    assert "nothing new" in report["reasons"]["n1"]


@pytest.mark.parametrize(
    "words", ["piece 99", "piece x", "have", "delete 0", "piece " + "9" * 5000]
)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_invalid_requests_end_one_connection_only(node: Maker, words: str) -> None:
    seed = node(0, DATA).serve()
    peer = share.PieceConnection(seed.address, seed.port, SECRET, os.path.basename(seed.store.path))
    try:
        peer.sock.sendall(words.encode() + b"\n")
        assert peer.stream.read(1) == b""
    finally:
        peer.close()
    other = node(1)
    other.store.prepare()
    assert other.fetch(seed)["complete"]


def test_a_peer_without_the_secret_gets_nothing(node: Maker) -> None:
    seed, stranger = node(0, DATA).serve(), node(1)
    stranger.store.prepare()
    report = stranger.fetch(seed, secret="x" * 64)
    assert (report["complete"], report["bytes"]) == (False, 0)
    assert "secret" in report["reasons"]["n0"]
    with socket.create_connection((seed.address, seed.port), 5) as sock:
        sock.settimeout(5)
        nonce = sock.recv(100)
        sock.sendall(b"piece 0\n")
        assert sock.recv(100) == b"no\n"
        assert sock.recv(100) == b""
    assert SECRET.encode() not in nonce


def test_data_of_a_peer_needs_the_controllers_hash(node: Maker) -> None:
    liar, honest, last = node(1, DATA).serve(), node(2, DATA).serve(), node(3)
    Path(liar.store.path).write_bytes(b"x" * len(DATA))
    last.store.prepare()
    report = last.fetch(liar)
    assert (report["complete"], report["damaged"] > 0, report["bytes"]) == (False, True, 0)
    report = last.fetch(liar, honest)
    assert (report["complete"], report["from"], has_whole_file(last)) == (True, ["n2"], True)


def test_an_interrupted_transfer_resumes_and_verifies(node: Maker) -> None:
    seed, last = node(0, DATA).serve(), node(1)
    last.store.prepare()
    for number in range(15):
        last.store.keep(number, DATA[number * PIECE : (number + 1) * PIECE])
    share.write_at_offset(last.store.part, 3 * PIECE, b"damaged on the disk")
    again = node(1)
    assert again.store.prepare() == 14
    report = again.fetch(seed)
    assert (report["bytes"], has_whole_file(again)) == (len(DATA) - 14 * PIECE, True)
    assert node(1).store.prepare() == len(MANIFEST["pieces"])


def test_a_damaged_file_is_not_offered(node: Maker) -> None:
    one = node(0, DATA[:-1] + b"?")
    assert one.store.prepare() == len(MANIFEST["pieces"]) - 1
    assert not Path(one.store.path).exists()


def test_if_a_node_fails_the_next_one_is_asked(node: Maker) -> None:
    seed, dead, last = node(0, DATA).serve(), node(1).serve(), node(2)
    (dead.folder / share.CONTROL).unlink()
    dead.thread.join(10)
    last.store.prepare()
    report = last.fetch(dead, seed)
    assert (report["complete"], report["from"], list(report["reasons"])) == (True, ["n0"], ["n1"])


def test_one_blocked_path_is_named_and_stops_no_other(
    node: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node(0, DATA).serve(), *(node(n).serve() for n in range(1, 4))]
    real = socket.create_connection

    def shut(address: tuple[str, int], seconds: float) -> socket.socket:
        if address[0] == nodes[1].address:
            raise TimeoutError("timed out")
        return real(address, seconds)

    monkeypatch.setattr(share.socket, "create_connection", shut)
    reports = fetch_together(nodes)
    assert all(report["complete"] for report in reports)
    assert "timed out" in reports[2]["reasons"]["n1"]
    lonely = node(5)
    lonely.store.prepare()
    report = lonely.fetch(nodes[1])
    said = wheel_share.describe_wheel_fallback("n5", report["reasons"], "")
    assert said.startswith("[TR-111] n5 could not get the wheels from other nodes: n1: timed out")


def test_a_node_without_its_address_continues_with_a_note(tmp_path: Path) -> None:
    order = {"path": str(tmp_path / "up/w/b.tar"), "manifest": MANIFEST, "address": "192.0.2.1"}
    answer = wheel_share.start_sharing(order | {"first": 50000, "last": 50100})
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("up", "up/w")]
    assert modes == [0o755, 0o700]
    assert (answer["port"], answer["complete"]) == (0, False)
    assert "192.0.2.1" in answer["why"]
    assert "[TR-111]" in wheel_share.describe_wheel_fallback("n1", {}, answer["why"])


@given(st.integers(2, 300))
def test_every_path_leads_to_the_first_node_without_crowding(count: int) -> None:
    asked = collections.Counter(
        torch_runtime.order_bundle_sources(place, count)[0] for place in range(1, count)
    )
    assert max(asked.values()) <= torch_runtime.FAN_OUT
    for place in range(1, count):
        way = torch_runtime.order_bundle_sources(place, count)
        assert 0 in way
        assert place not in way
        assert len(way) == len(set(way)) <= count.bit_length() + 2
    assert torch_runtime.order_bundle_sources(0, count) == []


def test_the_sharing_pairs() -> None:
    plan = {"nodes": {name: {"node_rank": rank} for rank, name in enumerate("abcd")}}
    bare = make_node()
    nodes = {name: (bare, wheels()) for name in "dcba"}
    assert [torch_runtime.plan_bundle_handover(nodes, plan)[n]["sources"] for n in "abc"] == [
        [],
        ["a", "c"],
        ["a", "b", "d"],
    ]
    # a node that an interrupted run left with the whole bundle goes first, one with a half bundle does not
    nodes["c"] = (make_node(bundles={"1.tar": 9}), wheels())
    nodes["b"] = (make_node(bundles={"1.tar": 8}), wheels())
    assert torch_runtime.plan_bundle_handover(nodes, plan)["c"] == {"sources": [], "shared": True}
    # another Python's wheels, nothing to copy, no plan: no node to share with
    other = {
        "a": (bare, wheels()),
        "b": (bare, wheels(bundle="/c/2.tar")),
        "c": (bare, wheels(bundle="")),
    }
    alone = {"sources": [], "shared": False}
    assert torch_runtime.plan_bundle_handover(other, plan) == {"a": alone, "b": alone}
    assert torch_runtime.plan_bundle_handover(nodes, {}) == dict.fromkeys("dcba", alone)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """A package index that counts what it gives away."""
    served: list[int] = []

    class Counting(SimpleHTTPRequestHandler):
        def copyfile(self, source: Any, outputfile: Any) -> None:
            data = source.read()
            served.append(len(data))
            outputfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    folder = tmp_path / "index"
    (folder / "simple/madeup").mkdir(parents=True)
    with zipfile.ZipFile(folder / "simple/madeup/madeup-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("madeup/data", random.Random(1).randbytes(300_000))  # noqa: S311 (bytes, no secret)
        archive.writestr(
            "madeup-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: madeup\nVersion: 1.0\n"
        )
        archive.writestr("madeup-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("madeup-1.0.dist-info/RECORD", "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple", served
    server.shutdown()
    server.server_close()


def test_four_nodes_cost_the_outside_as_much_as_two(
    tmp_path: Path, index: tuple[str, list[int]], node: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, served = index
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    wheel = tmp_path / "index/simple/madeup/madeup-1.0-py3-none-any.whl"
    lock = tmp_path / "lock.txt"
    lock.write_text(f"madeup==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    outside = {}
    for count in (2, 4):
        served.clear()
        monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / f"pip{count}"))
        (target,) = torch_runtime.list_wheel_targets(
            [({"lock": str(lock), "index": ""}, make_node())] * count
        )
        order = {
            "requirements": str(lock),
            "cache": str(tmp_path / f"cache{count}"),
            "index": "",
            "wheels": "",
            "seconds": 120,
        }
        got = wheelhouse.provide_wheels(target | order)
        assert wheelhouse.provide_wheels(target | order)["changed"] is False
        name = f"{count}-{Path(got['bundle']).name}"
        bundle = Path(got["bundle"]).read_bytes()
        nodes = [node(10 * count, bundle, got["manifest"], name).serve()]
        nodes += [node(10 * count + n, b"", got["manifest"], name).serve() for n in range(1, count)]
        assert all(report["complete"] for report in fetch_together(nodes))
        for one in nodes:
            unpacked = {
                "wheels": str(one.folder),
                "bundle": one.store.path,
                "expected": got["wheels"],
            }
            torch_env.unpack_wheels(unpacked)
            assert (one.folder / wheel.name).read_bytes() == wheel.read_bytes()
        outside[count] = sum(served)
    assert outside[2] > 300_000
    assert outside[4] / outside[2] < 1.1, json.dumps(outside)
