# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Call libibverbs, the library of RDMA devices, through ctypes: one reliable connection (RC) with two buffers.

The layouts are those of rdma-core's ``infiniband/verbs.h``, whose ABI is stable (IBVERBS_1.1). They are the same on
x86_64 and aarch64. ``ibv_poll_cq``, ``ibv_post_send`` and ``ibv_post_recv`` are inline functions there: they call
through the context's table of operations, and so does this module. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable

LIBRARY = "libibverbs.so.1"
SYMBOLS = (
    "ibv_get_device_list",
    "ibv_free_device_list",
    "ibv_get_device_name",
    "ibv_open_device",
    "ibv_close_device",
    "ibv_query_port",
    "ibv_alloc_pd",
    "ibv_reg_mr",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_modify_qp",
)
RESET, INIT, READY_TO_RECEIVE, READY_TO_SEND = range(4)  # enum ibv_qp_state
RELIABLE = 2  # IBV_QPT_RC
SEND, SIGNALED = 2, 2  # IBV_WR_SEND, IBV_SEND_SIGNALED
LOCAL_WRITE = 1  # IBV_ACCESS_LOCAL_WRITE
# enum ibv_qp_attr_mask
STATE, ACCESS, PKEY, PORT, ADDRESS, PATH_MTU = 1 << 0, 1 << 3, 1 << 4, 1 << 5, 1 << 7, 1 << 8
TIMEOUT, RETRIES, RNR_RETRIES, RECEIVE_PSN = 1 << 9, 1 << 10, 1 << 11, 1 << 12
MOST_READS, RNR_TIMER, SEND_PSN, MOST_ANSWERS, PEER = 1 << 13, 1 << 15, 1 << 16, 1 << 17, 1 << 20
# The acknowledgement of a packet is awaited for 4.096 us * 2**16 = 0.27 s, and the packet is sent 8 times at most.
ACK_TIMEOUT, RETRY_COUNT = 16, 7
RNR_DELAY, RNR_COUNT = 20, 6  # 10 ms each
HOP_LIMIT = 64
DEPTH = 16
IN_FLIGHT = 4  # messages of a stream. The receiver is DEPTH ahead, so that it is never too late
POLLS = 200  # between two looks at the clock
# Between two polls of a completion queue: longer and longer, so that waiting processes leave the CPU to soft-RoCE.
POLL_LEAST, POLL_MOST, POLL_SHARE = 0.0005, 0.02, 0.125
# enum ibv_wc_status, the entries that name a cause
STATUS = {
    0: "IBV_WC_SUCCESS",
    1: "IBV_WC_LOC_LEN_ERR",
    2: "IBV_WC_LOC_QP_OP_ERR",
    4: "IBV_WC_LOC_PROT_ERR",
    5: "IBV_WC_WR_FLUSH_ERR",
    9: "IBV_WC_REM_INV_REQ_ERR",
    10: "IBV_WC_REM_ACCESS_ERR",
    11: "IBV_WC_REM_OP_ERR",
    12: "IBV_WC_RETRY_EXC_ERR",
    13: "IBV_WC_RNR_RETRY_EXC_ERR",
    21: "IBV_WC_GENERAL_ERR",
}
RETRIES_EXCEEDED, RNR_RETRIES_EXCEEDED = 12, 13
U8, U16, U32, U64, INT, PTR = (
    ctypes.c_uint8,
    ctypes.c_uint16,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.c_void_p,
)


class ContextOps(ctypes.Structure):
    """``struct ibv_context_ops``: only poll_cq, post_send and post_recv are used."""

    _fields_ = (
        ("before_poll", PTR * 11),
        ("poll_cq", PTR),
        ("before_send", PTR * 13),
        ("post_send", PTR),
        ("post_recv", PTR),
        ("after_recv", PTR * 5),
    )


class Context(ctypes.Structure):
    """``struct ibv_context`` up to its file descriptors."""

    _fields_ = (("device", PTR), ("ops", ContextOps), ("cmd_fd", INT), ("async_fd", INT))


class MemoryRegion(ctypes.Structure):
    """``struct ibv_mr``."""

    _fields_ = (
        ("context", PTR),
        ("pd", PTR),
        ("addr", PTR),
        ("length", ctypes.c_size_t),
        ("handle", U32),
        ("lkey", U32),
        ("rkey", U32),
    )


class QueuePair(ctypes.Structure):
    """``struct ibv_qp`` up to the number that the peer needs."""

    _fields_ = (("before", PTR * 6), ("handle", U32), ("qp_num", U32))


class QueueLimits(ctypes.Structure):
    """``struct ibv_qp_cap``."""

    _fields_ = (
        ("max_send_wr", U32),
        ("max_recv_wr", U32),
        ("max_send_sge", U32),
        ("max_recv_sge", U32),
        ("max_inline_data", U32),
    )


class QueuePairRequest(ctypes.Structure):
    """``struct ibv_qp_init_attr``."""

    _fields_ = (
        ("qp_context", PTR),
        ("send_cq", PTR),
        ("recv_cq", PTR),
        ("srq", PTR),
        ("cap", QueueLimits),
        ("qp_type", INT),
        ("sq_sig_all", INT),
    )


class GlobalRoute(ctypes.Structure):
    """``struct ibv_global_route``. The GID is a union with 64-bit numbers, which align it."""

    _fields_ = (
        ("dgid", U64 * 2),
        ("flow_label", U32),
        ("sgid_index", U8),
        ("hop_limit", U8),
        ("traffic_class", U8),
    )


class PeerAddress(ctypes.Structure):
    """``struct ibv_ah_attr``."""

    _fields_ = (
        ("grh", GlobalRoute),
        ("dlid", U16),
        ("sl", U8),
        ("src_path_bits", U8),
        ("static_rate", U8),
        ("is_global", U8),
        ("port_num", U8),
    )


class QueuePairAttributes(ctypes.Structure):
    """``struct ibv_qp_attr``."""

    _fields_ = (
        ("qp_state", INT),
        ("cur_qp_state", INT),
        ("path_mtu", INT),
        ("path_mig_state", INT),
        ("qkey", U32),
        ("rq_psn", U32),
        ("sq_psn", U32),
        ("dest_qp_num", U32),
        ("qp_access_flags", ctypes.c_uint),
        ("cap", QueueLimits),
        ("ah_attr", PeerAddress),
        ("alt_ah_attr", PeerAddress),
        ("pkey_index", U16),
        ("alt_pkey_index", U16),
        ("en_sqd_async_notify", U8),
        ("sq_draining", U8),
        ("max_rd_atomic", U8),
        ("max_dest_rd_atomic", U8),
        ("min_rnr_timer", U8),
        ("port_num", U8),
        ("timeout", U8),
        ("retry_cnt", U8),
        ("rnr_retry", U8),
        ("alt_port_num", U8),
        ("alt_timeout", U8),
        ("rate_limit", U32),
    )


class Piece(ctypes.Structure):
    """``struct ibv_sge``."""

    _fields_ = (("addr", U64), ("length", U32), ("lkey", U32))


class SendRequest(ctypes.Structure):
    """``struct ibv_send_wr``. Its unions are for other kinds of requests."""

    _fields_ = (
        ("wr_id", U64),
        ("next", PTR),
        ("sg_list", ctypes.POINTER(Piece)),
        ("num_sge", INT),
        ("opcode", INT),
        ("send_flags", ctypes.c_uint),
        ("imm_data", U32),
        ("unions", U64 * 11),
    )


class ReceiveRequest(ctypes.Structure):
    """``struct ibv_recv_wr``."""

    _fields_ = (
        ("wr_id", U64),
        ("next", PTR),
        ("sg_list", ctypes.POINTER(Piece)),
        ("num_sge", INT),
    )


class Completion(ctypes.Structure):
    """``struct ibv_wc``."""

    _fields_ = (
        ("wr_id", U64),
        ("status", INT),
        ("opcode", INT),
        ("vendor_err", U32),
        ("byte_len", U32),
        ("imm_data", U32),
        ("qp_num", U32),
        ("src_qp", U32),
        ("wc_flags", ctypes.c_uint),
        ("pkey_index", U16),
        ("slid", U16),
        ("sl", U8),
        ("dlid_path_bits", U8),
    )


class PortAttributes(ctypes.Structure):
    """``struct ibv_port_attr`` up to the LID. The rest is room for newer libraries."""

    _fields_ = (
        ("state", INT),
        ("max_mtu", INT),
        ("active_mtu", INT),
        ("gid_tbl_len", INT),
        ("numbers", U32 * 4),
        ("pkey_tbl_len", U16),
        ("lid", U16),
        ("rest", U8 * 256),
    )


POLL = ctypes.CFUNCTYPE(INT, PTR, INT, PTR)
POST = ctypes.CFUNCTYPE(INT, PTR, PTR, PTR)


class VerbsError(Exception):
    """A step of the connection failed. *step*: its name. *number*: errno, or the status of a completion."""

    def __init__(self, step: str, number: int = 0) -> None:
        super().__init__(step, number)
        self.step, self.number = step, number


class PeerQueue(NamedTuple):
    """The values that the two ends exchange to connect their queue pairs."""

    gid: str
    lid: int
    number: int
    psn: int
    mtu: int


def load_library() -> ctypes.CDLL:
    """Load libibverbs and declare its functions.

    Raises:
        VerbsError: ``library``, if it or one of its functions is missing.
    """
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
        for name in SYMBOLS:
            getattr(library, name).restype = INT if name in INTEGERS else PTR
    except (OSError, AttributeError) as exc:
        raise VerbsError("library", errno.ENOENT) from exc
    library.ibv_get_device_name.restype = ctypes.c_char_p
    return library


INTEGERS = ("ibv_close_device", "ibv_query_port", "ibv_modify_qp")


def gid_to_words(gid: str) -> tuple[int, int]:
    """Convert a GID to two numbers in this machine's byte order, whose bytes are the GID's."""
    raw = bytes.fromhex(gid.replace(":", ""))
    first, second = struct.unpack("=QQ", raw)
    return first, second


def open_context(library: ctypes.CDLL, device: str) -> int:
    """Open a device by its name, and return the address of its context.

    Raises:
        VerbsError: ``device``, if the library does not know it (its provider is missing), or ``open``.
    """
    count = INT()
    devices = library.ibv_get_device_list(ctypes.byref(count))
    if not devices:
        raise VerbsError("device", ctypes.get_errno())
    try:
        held = (PTR * count.value).from_address(devices)
        for one in held:
            if (library.ibv_get_device_name(PTR(one)) or b"").decode("ascii", "replace") == device:
                context = library.ibv_open_device(PTR(one))
                if not context:
                    raise VerbsError("open", ctypes.get_errno())
                return int(context)
    finally:
        library.ibv_free_device_list(PTR(devices))
    raise VerbsError("device", errno.ENODEV)


class Connection:
    """One queue pair with a buffer to send and a buffer to receive.

    The process that made it must end soon: its end releases everything.
    """

    def __init__(self, device: str, port: int, size: int) -> None:
        """Open the device, register *size* bytes of memory twice, and make the queue pair.

        Raises:
            VerbsError: the failed step with its errno.
        """
        self.library = load_library()
        self.port = port
        self.is_over: Callable[[], bool] = lambda: False  # whether the peer has given up
        self.context = open_context(self.library, device)
        self.ops = Context.from_address(self.context).ops
        self.attributes = PortAttributes()
        self.check(
            "port",
            self.library.ibv_query_port(PTR(self.context), U8(port), ctypes.byref(self.attributes)),
        )
        self.domain = self.expect("pd", self.library.ibv_alloc_pd(PTR(self.context)))
        self.outgoing, self.incoming = (ctypes.create_string_buffer(size) for _ in range(2))
        self.keys = [self.register(one) for one in (self.outgoing, self.incoming)]
        self.queues = [
            self.expect("cq", self.library.ibv_create_cq(PTR(self.context), DEPTH, None, None, 0))
            for _ in range(2)
        ]
        self.pair = self.make_pair()
        self.number = QueuePair.from_address(self.pair).qp_num
        self.poll, self.post_send, self.post_receive = (
            POLL(self.ops.poll_cq),
            POST(self.ops.post_send),
            POST(self.ops.post_recv),
        )

    def expect(self, step: str, address: int | None) -> int:
        """Return the address that a function returned, or raise the step's error."""
        if not address:
            raise VerbsError(step, ctypes.get_errno())
        return address

    def check(self, step: str, number: int) -> None:
        """Raise the step's error if a function returned one: errno, or -1 with errno set."""
        if number:
            raise VerbsError(step, ctypes.get_errno() if number < 0 else number)

    def register(self, buffer: ctypes.Array[ctypes.c_char]) -> int:
        """Register a buffer and return its key. It fails with ENOMEM if too little memory may be locked."""
        region = self.library.ibv_reg_mr(
            PTR(self.domain), buffer, ctypes.c_size_t(len(buffer)), LOCAL_WRITE
        )
        return int(MemoryRegion.from_address(self.expect("mr", region)).lkey)

    def make_pair(self) -> int:
        """Make the queue pair."""
        request = QueuePairRequest(
            send_cq=self.queues[0],
            recv_cq=self.queues[1],
            cap=QueueLimits(DEPTH, DEPTH, 1, 1, 0),
            qp_type=RELIABLE,
        )
        return self.expect(
            "qp", self.library.ibv_create_qp(PTR(self.domain), ctypes.byref(request))
        )

    def modify(self, step: str, attributes: QueuePairAttributes, mask: int) -> None:
        """Change the state of the queue pair."""
        done = self.library.ibv_modify_qp(PTR(self.pair), ctypes.byref(attributes), INT(mask))
        self.check(step, done)

    def connect(self, gid_index: int, psn: int, peer: PeerQueue) -> None:
        """Connect to the peer's queue pair. The path MTU is the smaller one of both ends, as NCCL chooses it.

        Raises:
            VerbsError: ``init``, ``rtr`` (the kernel looks for the path to the peer's GID here) or ``rts``.
        """
        start = QueuePairAttributes(qp_state=INIT, pkey_index=0, port_num=self.port)
        self.modify("init", start, STATE | PKEY | PORT | ACCESS)
        words = gid_to_words(peer.gid)
        route = GlobalRoute(dgid=(U64 * 2)(*words), sgid_index=gid_index, hop_limit=HOP_LIMIT)
        receive = QueuePairAttributes(
            qp_state=READY_TO_RECEIVE,
            path_mtu=min(peer.mtu, self.attributes.active_mtu),
            dest_qp_num=peer.number,
            rq_psn=peer.psn,
            max_dest_rd_atomic=1,
            min_rnr_timer=RNR_DELAY,
            ah_attr=PeerAddress(grh=route, dlid=peer.lid, is_global=1, port_num=self.port),
        )
        needed = STATE | ADDRESS | PATH_MTU | PEER | RECEIVE_PSN | MOST_ANSWERS | RNR_TIMER
        self.modify("rtr", receive, needed)
        send = QueuePairAttributes(
            qp_state=READY_TO_SEND,
            sq_psn=psn,
            timeout=ACK_TIMEOUT,
            retry_cnt=RETRY_COUNT,
            rnr_retry=RNR_COUNT,
            max_rd_atomic=1,
        )
        needed = STATE | SEND_PSN | TIMEOUT | RETRIES | RNR_RETRIES | MOST_READS
        self.modify("rts", send, needed)

    def expect_message(self, size: int) -> None:
        """Prepare to receive a message of at most *size* bytes."""
        piece = Piece(ctypes.addressof(self.incoming), size, self.keys[1])
        request = ReceiveRequest(sg_list=ctypes.pointer(piece), num_sge=1)
        bad = PTR()
        done = self.post_receive(self.pair, ctypes.addressof(request), ctypes.addressof(bad))
        self.check("post_recv", done)

    def post_message(self, size: int) -> None:
        """Send the first *size* bytes of the buffer without waiting."""
        piece = Piece(ctypes.addressof(self.outgoing), size, self.keys[0])
        request = SendRequest(
            sg_list=ctypes.pointer(piece), num_sge=1, opcode=SEND, send_flags=SIGNALED
        )
        bad = PTR()
        done = self.post_send(self.pair, ctypes.addressof(request), ctypes.addressof(bad))
        self.check("post_send", done)

    def send_stream(self, size: int, seconds: float, deadline: float) -> float:
        """Send messages for *seconds*. Return the rate in bytes per second that the peer's device acknowledged.

        Raises:
            VerbsError: ``send`` with the completion's status, or 0 if none came until the deadline.
        """
        begun = time.monotonic()
        for _ in range(IN_FLIGHT):
            self.post_message(size)
        posted, acknowledged = IN_FLIGHT, 0
        while acknowledged < posted:
            self.wait_busily("send", self.queues[0], deadline)
            acknowledged += 1
            if time.monotonic() - begun < seconds:
                self.post_message(size)
                posted += 1
        return acknowledged * size / max(1e-6, time.monotonic() - begun)

    def expect_stream(self, size: int) -> None:
        """Prepare to receive a stream."""
        for _ in range(DEPTH):
            self.expect_message(size)

    def receive_stream(self, size: int, deadline: float) -> int:
        """Receive messages until the peer ends the stream. Return how many came."""
        count = 0
        while True:
            try:
                self.wait_busily("receive", self.queues[1], deadline)
            except VerbsError as error:
                if error.args == ("receive", 0) and time.monotonic() < deadline:
                    return count  # the peer has written its line
                raise
            self.expect_message(size)
            count += 1

    def wait_busily(self, step: str, queue: int, deadline: float) -> None:
        """Wait for one completion without sleeping, for a measurement."""
        done = Completion()
        while True:
            for _ in range(POLLS):
                count = self.poll(queue, 1, ctypes.addressof(done))
                if count < 0:
                    raise VerbsError("poll_cq", -count)
                if count:
                    self.check_status(step, done)
                    return
            if time.monotonic() > deadline or self.is_over():
                raise VerbsError(step)

    def check_status(self, step: str, done: Completion) -> None:
        """Raise the step's error if a completion has one."""
        if done.status:
            raise VerbsError(step, done.status)

    def send_message(self, data: bytes, deadline: float) -> None:
        """Send a message, and wait until the peer's device has acknowledged it.

        Raises:
            VerbsError: ``send`` with the completion's status, or 0 if none came until the deadline.
        """
        ctypes.memmove(self.outgoing, data, len(data))
        self.post_message(len(data))
        self.wait("send", self.queues[0], deadline)

    def receive_message(self, deadline: float) -> bytes:
        """Wait for a message.

        Raises:
            VerbsError: ``receive`` with the completion's status, or 0 if none came until the deadline.
        """
        done = self.wait("receive", self.queues[1], deadline)
        return self.incoming.raw[: done.byte_len]

    def wait(self, step: str, queue: int, deadline: float) -> Completion:
        """Wait for one completion."""
        done = Completion()
        begun = time.monotonic()
        while True:
            count = self.poll(queue, 1, ctypes.addressof(done))
            if count < 0:
                raise VerbsError("poll_cq", -count)
            if count:
                self.check_status(step, done)
                return done
            now = time.monotonic()
            if now > deadline or self.is_over():
                raise VerbsError(step)
            time.sleep(min(POLL_MOST, max(POLL_LEAST, (now - begun) * POLL_SHARE)))


def describe_number(step: str, number: int) -> str:
    """Return the name of a step's errno or completion status, "" for none."""
    if not number:
        return ""
    if step in ("send", "receive"):
        return STATUS.get(number, f"completion status {number}")
    return name_errno(number)


def name_errno(number: int) -> str:
    """Return the name of an error number, such as ENOMEM."""
    return errno.errorcode.get(number, f"errno {number}")
