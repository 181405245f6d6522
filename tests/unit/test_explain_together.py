"""explain-log: several lines or logs together, consequences, and information of the plan."""

from __future__ import annotations

import pytest
from test_explain_log import (
    CLIENTS,
    GLOO,
    RANGE,
    RECORDED,
    SIGKILL,
    WATCHDOG,
    c10d_timeout,
    list_folded,
    list_heads,
    torchrun,
    verdict_of,
)

from fullmesh.causes.gloo.patterns import swap_port_bytes
from fullmesh.causes.logs import ExplainOptions
from fullmesh.observed.ports import PortRange


def test_the_error_is_in_the_other_log() -> None:
    passive = "[rank0]: " + GLOO + "pair.h:311] Connect timeout [none]"
    active = (
        "[rank1]: "
        + GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1"
    )
    verdict = verdict_of(passive, active, options=ExplainOptions(RANGE))
    assert list_heads(verdict) == ["LG-102"]
    head = verdict.heads[0]
    assert head.evidence[0].file == "rank1.log"
    assert head.evidence[0].rank == "1"
    assert "port 40233 (Gloo prints it byte-swapped, as 10653)" in head.sentence
    assert "Port 40233 is OUTSIDE the data range 50000-54095" in head.sentence
    assert "10.77.0.11" in head.where
    assert [child.code for child in head.follows] == ["LG-105"]


@pytest.mark.parametrize(("port", "word"), [(50001, "in the data range"), (40233, "OUTSIDE")])
def test_the_port_is_swapped_and_judged(port: int, word: str) -> None:
    text = (
        GLOO + "pair.cc:172] timed out connecting: SO_ERROR: Connection refused, "
        f"remote=[10.77.0.11]:{swap_port_bytes(port)}$1"
    )
    assert word in verdict_of(text, options=ExplainOptions(RANGE)).heads[0].sentence
    assert "data range" not in verdict_of(text).heads[0].sentence


def test_swapping_is_its_own_inverse() -> None:
    assert swap_port_bytes(10653) == 40233
    assert all(swap_port_bytes(swap_port_bytes(port)) == port for port in range(0, 65536, 7))


def test_a_port_outside_the_ephemeral_range_of_another_node() -> None:
    text = c10d_timeout("node1", 62001)
    assert list_heads(verdict_of(text)) == ["LG-202"]
    assert list_heads(verdict_of(text, options=ExplainOptions(PortRange(62000, 63000)))) == [
        "LG-203"
    ]


def test_the_missing_rank_is_named_with_its_node() -> None:
    waiting = "[rank0]: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/1"
    told = "node2:1:2 [0] NCCL INFO comm 0x7f132405ad20 rank 1 nranks 2 cudaDev 0 busId 1a000"
    assert "None of the given logs is of rank 1" in verdict_of(waiting).heads[0].sentence
    assert "Rank 1 runs on node2" in verdict_of(waiting, told).heads[0].sentence
    assert verdict_of(waiting).heads[0].where == "rank 1"


def test_a_crash_explains_only_its_own_rank() -> None:
    missing = "wait timeout after 10000ms, keys: /default_pg/0//cpu//0/{}"
    killed = torchrun(1, "node2", -9, SIGKILL)
    assert list_heads(verdict_of(missing.format(1), killed)) == ["LG-305"]
    assert list_heads(verdict_of(missing.format(2), killed)) == ["LG-305", "LG-210"]


def test_a_killed_rank_is_one_finding_with_rank_and_host() -> None:
    line = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9)"
        " local_rank: 3 (pid: 812917) of binary: x\n"
    )
    verdict = verdict_of(line + torchrun(3, "node2", -9, SIGKILL))
    assert list_heads(verdict) == ["LG-305"]
    assert verdict.heads[0].where == "rank 3 on node2"


def test_two_failures_in_one_block_are_separated() -> None:
    block = torchrun(0, "node1", 1, "x") + torchrun(5, "node2", -9, SIGKILL)
    verdict = verdict_of(block)
    assert list_heads(verdict) == ["LG-305"]
    assert verdict.heads[0].where == "rank 5 on node2"
    assert verdict.heads[0].follows[0].where == "rank 0 on node1"


def test_the_errno_is_shown_with_the_right_address() -> None:
    text = RECORDED["store port rejected"].text
    head = verdict_of(text).heads[0]
    assert "fd78::11:29500" in head.sentence
    assert "rejected (errno 113" in head.sentence
    assert "215.85" not in head.sentence
    assert "not to be trusted" in head.follows[0].sentence


def test_the_hidden_port_is_found_with_its_reason() -> None:
    text = c10d_timeout("10.77.0.11", 51000)
    head = verdict_of(text, options=ExplainOptions(RANGE)).heads[0]
    assert head.code == "LG-203"
    assert "in the data range" in head.sentence


@pytest.mark.parametrize("short", ["clients, cut off", "clients, cut off after the full stop"])
def test_a_line_without_its_numbers_is_the_same_finding(short: str) -> None:
    """torchrun's error file repeats rank 0's line, cut off."""
    cut = RECORDED[short].text
    assert "(connected: ?)" in verdict_of(cut).heads[0].sentence
    for texts in ((cut, CLIENTS), (CLIENTS, cut)):
        (head,) = verdict_of(*texts).heads
        assert "waited 1801 s" in head.sentence
        assert "(connected: 1 of 2)" in head.sentence
        assert head.count == 2


def test_no_efa_reply_after_pattern_4_names_the_security_group() -> None:
    efa, pattern = RECORDED["seed 5: pattern 4 beside EFA"].text.split("\n")
    (head,) = verdict_of(pattern, efa).heads
    assert "security group" in head.where
    assert "from and to the group itself" in head.fix
    assert {line.file for line in head.evidence} == {"rank0.log", "rank1.log"}


def test_two_master_ports() -> None:
    verdict = verdict_of(c10d_timeout("node1", 29500), c10d_timeout("node1", 29501))
    assert list_heads(verdict) == ["LG-209"]
    assert list_folded(verdict) == ["LG-202", "LG-202"]


def test_nodes_that_train_alone() -> None:
    alone = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1\n"
    assert list_heads(verdict_of(alone, alone)) == ["LG-315"]
    assert list_heads(verdict_of(alone)) == []


def test_different_nccl_versions() -> None:
    verdict = verdict_of(
        "NCCL version 2.20.5+cuda12.4\n",
        "NCCL version 2.23.4+cuda12.4\nMessage truncated : received 1024 bytes instead of 256",
    )
    assert list_heads(verdict) == ["LG-423"]
    assert list_folded(verdict) == ["LG-409"]


def test_different_kinds_of_addresses() -> None:
    verdict = verdict_of(
        "node1:1:1 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.11<0>\n",
        "node2:1:1 [0] NCCL INFO Bootstrap : Using eth1:fd78::12<0>\n"
        "node2:1:2 [0] NCCL WARN socketPollConnect: Connect to 10.77.0.11<51849> returned 110(Connection timed out)",
    )
    assert list_heads(verdict) == ["LG-424"]
    assert list_folded(verdict) == ["LG-404"]


def test_the_rank_that_is_behind() -> None:
    behind = verdict_of(
        WATCHDOG.format(0, 96120, "ALLREDUCE"), WATCHDOG.format(7, 64088, "ALLREDUCE")
    )
    assert "Rank 7 is at number 64088, others at 96120" in behind.heads[0].sentence
    size = "node1:1:2 [0] NCCL INFO comm 0x7f rank 0 nranks 3 cudaDev 0\n"
    silent = verdict_of(
        size + WATCHDOG.format(0, 5, "ALLREDUCE"), WATCHDOG.format(2, 5, "ALLREDUCE")
    )
    assert "Rank 1 logged no timeout" in silent.heads[0].sentence


def test_causes_come_before_symptoms_and_mechanisms_before_guesses() -> None:
    text = "\n".join(
        RECORDED[case].text
        for case in ("other key", "seed 2: clients", "disk", "seed 3: rank", "gloo peer died")
    )
    assert list_heads(verdict_of(text)) == ["LG-401", "LG-505"]
    assert list_folded(verdict_of(text)) == ["LG-112", "LG-201", "LG-211"]


def test_a_job_killed_while_waiting_has_one_cause() -> None:
    text = (
        "[external/gloo/gloo/transport/tcp/debug_logger.cc:25] ERROR failed to connect, willRetry=0, retry=4,"
        " retryLimit=3, rank=0, size=2, local=[127.0.0.1]:41163, remote=[127.0.1.1]:44486$0, error=SO_ERROR:"
        " Connection refused, remote=[127.0.1.1]:44486$0\nKilled\n"
    )
    assert (list_heads(verdict_of(text)), list_folded(verdict_of(text))) == (["LG-106"], ["LG-305"])
    assert list_heads(verdict_of("Killed\n")) == ["LG-305"]


TIMEOUT = WATCHDOG.format(1, 4, "ALLREDUCE")
CLOSED = "[rank0]: remote process exited or there was a network error, NCCL version 2.28.9"


@pytest.mark.parametrize(
    ("logs", "named"),
    [
        ([CLOSED, "step 3"], "rank1.log"),
        ([CLOSED, "step 3", "step 4"], "rank1.log and rank2.log"),
        ([CLOSED, "step 3", "step 4", "step 5"], ""),  # too many to read
        ([CLOSED, "[rank1]: " + CLOSED[9:]], ""),
        ([CLOSED, *["[rank7]: " + CLOSED[9:]] * 9, "step 3"], "rank10.log"),
        ([CLOSED, TIMEOUT], ""),
    ],
)
def test_a_log_without_an_error_is_named(logs: list[str], named: str) -> None:
    head = verdict_of(*logs).heads[0]
    assert head.extra == (
        f"No error is in {named}: that process was killed, or ended by itself." if named else ""
    )


def say_status(rank: int, text: str, group: str = "PG ID 0 PG GUID 0(default_pg)") -> str:
    return (
        f"[rank{rank}]:[E1127 13:46:27.451 ProcessGroupNCCL.cpp:2303] [{group} Rank {rank}]  {text}"
    )


def wait_in(number: int) -> str:
    return (
        f"failure detected by watchdog at work sequence id: {number} PG status: last enqueued work: {number},"
        f" last completed work: {number - 1}"
    )


def dump_at(number: int) -> str:
    return (
        "Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug"
        f" info. Last enqueued NCCL work: {number}, last completed NCCL work: {number}.This is most likely caused by"
    )


def test_one_rank_called_one_collective_too_many() -> None:
    logs = [say_status(0, wait_in(11)), *(say_status(rank, dump_at(10)) for rank in (1, 2, 3))]
    (head,) = verdict_of(*logs).heads
    assert head.code == "LG-456"
    assert head.where == "ranks 1, 2, 3"
    assert "rank 0 called one collective too many" in head.sentence


def test_two_groups_wait_for_each_other() -> None:
    other = "PG ID 1 PG GUID 7(tensor parallel)"
    logs = [
        say_status(0, wait_in(5)) + "\n" + say_status(0, dump_at(2), other),
        say_status(1, dump_at(4)) + "\n" + say_status(1, wait_in(3), other),
    ]
    (head,) = verdict_of(*logs).heads
    assert head.code == "LG-456"
    assert "the groups wait for each other" in head.sentence


def test_the_group_whose_ranks_wait_nowhere_comes_first() -> None:
    other = "PG ID 1 PG GUID 7(tensor parallel)"
    logs = [
        say_status(0, wait_in(5)),
        say_status(1, dump_at(4)) + "\n" + say_status(1, wait_in(3), other),
        say_status(2, dump_at(2), other),
    ]
    (head,) = verdict_of(*logs).heads
    assert head.sentence.startswith("Rank 2 never called the collective number 3 of group 7(tensor")


@pytest.mark.parametrize(
    "logs",
    [
        [wait_in(4), wait_in(4)],  # the same collective
        [wait_in(4), dump_at(9)],  # work is queued: it called number 4, too
        [wait_in(4), "NCCL Work update periodically: last enqueued NCCL work: 2, last completed"],
        [dump_at(4), dump_at(3)],  # no rank waited in this group
        [wait_in(4), dump_at(3).replace("3", "9" * 40)],
    ],
)
def test_no_rank_is_behind(logs: list[str]) -> None:
    verdict = verdict_of(*(say_status(rank, text) for rank, text in enumerate(logs)))
    assert "LG-456" not in list_heads(verdict)


def test_a_connection_that_closed_before_the_timeout_does_not_follow_from_it() -> None:
    assert list_heads(verdict_of(TIMEOUT + "\n" + CLOSED)) == ["LG-415"]
    assert "LG-421" in list_heads(verdict_of(CLOSED + "\n" + TIMEOUT))
