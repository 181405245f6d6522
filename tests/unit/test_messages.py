"""The catalogue of released messages: every rule about torch or NCCL searches for a text that a release prints."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from devtools import messages
from devtools.messages import LibraryMessage
from fullmesh.explain.judge import CAUSES

FAMILIES = ("nccl", "gloo", "store")
# reason -> causes of these families whose texts are not in the catalogue
EXCEPTIONS = {
    "the words are values in a message: an errno, an address, a version": (
        "LG-102 LG-103 LG-104 LG-106 LG-114 LG-119 LG-213 LG-217 LG-405 LG-431 LG-447 LG-453 LG-457 LG-462"
        " LG-905 LG-912"
    ),
    "only torch with CUDA has it, and the catalogue has the CPU build": "LG-212 LG-415 LG-416 LG-454 LG-456",
    "a longer message is put together from pieces": "LG-105 LG-111 LG-112 LG-116",
    "several lines show it together, and none of them is an error": "LG-115 LG-209 LG-410 LG-424 LG-914",
    "another library prints it": "LG-419 LG-420 LG-434 LG-435 LG-437",
}


def test_every_rule_of_torch_and_nccl_matches_a_release() -> None:
    texts = "\n".join(one.text for one in messages.read_catalogue())
    silent = {
        code
        for code, cause in CAUSES.items()
        if cause.family in FAMILIES
        and not any(
            len(pattern.needle) >= messages.LEAST and pattern.needle in texts
            for pattern in (*cause.patterns, *(fact.pattern for fact in cause.facts))
        )
    }
    assert silent == {code for codes in EXCEPTIONS.values() for code in codes.split()}


def test_a_message_keeps_its_first_and_last_version() -> None:
    known = [LibraryMessage("NCCL", "2.9.1", "2.9.1", "it failed %d")]
    (one,) = messages.merge_messages(known, "NCCL", "2.10.0", ["it failed %d"])
    assert (one.first, one.last) == ("2.9.1", "2.10.0")
    assert messages.merge_messages([one], "NCCL", "2.8", ["it failed %d"])[0].first == "2.8"


LIBRARY = b"\x7fELF\0The pipe to rank %d failed : %s\0short\0All is well with rank 3\0x INTERNAL ASSERT FAILED rank\0"
PYTHON = b"""
import logging
def run(rank):
    logging.error("The pipe to rank %s failed", rank)
    logging.info("The pipe to rank %s failed, and it is tried again", rank)
    raise c10d.StoreError(f"rank {rank} could not "
                          "connect: {}".format(rank))
"""
HELP = b"""# a comment
[no-route]
The rank %s could not be reached.

  Host: %s
#
[fine]
All is well with a rank.
"""


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (LIBRARY, ["The pipe to rank %d failed : %s"]),
        (PYTHON, ["The pipe to rank %s failed", "StoreError: rank {} could not connect: {}"]),
        (HELP, ["The rank %s could not be reached. Host: %s"]),
    ],
    ids=["library", "python", "help"],
)
def test_messages_are_read_from_the_files_of_a_wheel(
    data: bytes, texts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "torch.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("torch/lib/libtorch_cpu.so", data)
        wheel.writestr("torch/lib/other.so", LIBRARY.replace(b"pipe", b"line"))
    assert sorted(messages.extract_wheel_messages("torch", path)) == sorted(texts)


def test_the_page_has_the_figures_of_the_catalogue(tmp_path: Path) -> None:
    known = messages.read_catalogue()
    copy = tmp_path / "page.md"
    page = messages.PAGE.read_text("utf-8")
    copy.write_text(page.replace("| NCCL | 2", "| NCCL | 1"), "utf-8")
    messages.write_page(known, copy)
    assert copy.read_text("utf-8") == page


def test_a_message_without_a_cause_is_listed() -> None:
    known = LibraryMessage(
        "NCCL", "2", "2", "Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx"
    )
    reset = LibraryMessage("NCCL", "2", "2", "Call to recv from %s failed : %s")
    unknown = LibraryMessage("NCCL", "2", "2", "the frobnicator is closed")
    assert messages.find_uncovered([known, reset, unknown]) == [unknown]


def test_the_catalogue_is_written_as_it_was_read(tmp_path: Path) -> None:
    held = messages.read_catalogue()
    copy = tmp_path / "copy.xz"
    messages.write_catalogue(held, copy)
    assert messages.read_catalogue(copy) == held
    assert {one.program for one in held} == set(messages.PROGRAMS)
    assert messages.CATALOGUE.stat().st_size < 2**17
