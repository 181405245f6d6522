# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What controller and node say to each other when a node is asked (ask/boot.py). Standard library only."""

from __future__ import annotations

from typing import TypedDict


class NodeQuestion(TypedDict):
    """What the controller wants to know.

    Attributes:
        name: of the question; of each name a node keeps one program.
        mark: a word that nobody else prints, before everything that is said to the controller.
        program: SHA-256 of the program's source; size: its bytes on the wire.
        folder: where a node keeps programs; empty: nowhere.
        seconds: after so many nobody waits for the answer any more.
        module, function: what is called; given: its arguments.
        hold: 0, or after how many silent seconds of the controller the program ends; it then goes on after its answer,
            in the module's function ``hold``. Its function ``forget`` is called when the controller is gone.
    """

    name: str
    mark: str
    program: str
    size: int
    folder: str
    seconds: int
    module: str
    function: str
    given: dict[str, object]
    hold: float


class NodeAnswer(TypedDict, total=False):
    """What the node says.

    Attributes:
        result: what the function returned, where it did; failed: how it ended instead.
        unkept: why the program could not be kept, where it could not.
        python: the interpreter.
    """

    result: dict[str, object]
    failed: str
    unkept: str
    python: str
