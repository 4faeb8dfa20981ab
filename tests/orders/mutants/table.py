# SPDX-License-Identifier: Apache-2.0
"""The mutants: orders with one slip each, of the kind that people make, and what the checker must find broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Bound:
    """How far a search goes, and what the network does."""

    processes: int
    messages: int
    fan_out: int = 1
    to_all: int = 0  # every message goes to all that it may go to
    with_self: int = 0  # messages may go to their own sender
    doubled: int = 0
    lost: int = 0
    behaviour: str = "free"  # or side: every process hears of every delivery
    crashes: int = 0
    counts_moves: int = 0  # states that differ in their number of moves are different: no circles
    walks: int = 0  # random executions instead of a search

    def arguments(self) -> list[str]:
        return [f"{name}={value}" for name, value in vars(self).items()]

    def __str__(self) -> str:
        text = f"{self.processes} x {self.messages}"
        text += " to all" if self.to_all else f" to {self.fan_out}" if self.fan_out > 1 else ""
        text += " and oneself" if self.with_self else ""
        text += f", {self.doubled} doubled" if self.doubled else ""
        text += f", {self.lost} lost" if self.lost else ""
        text += f", {self.crashes} dead" if self.crashes else ""
        text += f", {self.walks} walks" if self.walks else ""
        text += ", side channels" if self.behaviour == "side" else ""
        return text + (", moves counted" if self.counts_moves else "")


@dataclass(frozen=True)
class Mutant:
    """An order whose file differs in some places; each of the old texts stands there once."""

    order: str
    slip: str  # what is broken, in one sentence
    breaks: str  # the property that is violated
    bound: Bound
    changes: tuple[tuple[str, str], ...]
    source: str = ""  # the file in csrc/order, where it is another one than that of the order

    @property
    def name(self) -> str:
        return f"{self.order}: {self.slip}"

    @property
    def file(self) -> str:
        """In csrc/order."""
        name, _, options = self.order.partition(":")
        if self.source:
            return self.source
        if options == "on_crash=go-on" and name in ("sequencer", "skeen", "abcast"):
            return "sequencer_successor.c" if name == "sequencer" else "skeen_survivors.c"
        name = name.removesuffix("-literal").removesuffix("-telling").replace("-", "_")
        return {"abcast": "skeen"}.get(name, name) + ".c"


# Old lines, and those that stand there instead, as they are written in a file of slips.
CHANGE = re.compile(r"((?:^-.*\n?)+)((?:^\+.*\n?)+)", re.MULTILINE)


def blocks(name: str) -> Iterator[tuple[list[str], tuple[tuple[str, str], ...]]]:
    """The blocks of a file of slips: the lines before the first change, and the changes.

    A change is written as a patch has it, but may begin and end inside a line; "+" alone is an empty text.
    """
    for block in (Path(__file__).parent / name).read_text().rstrip("\n").split("\n\n"):
        head = [line for line in block.split("\n") if line[0] not in "#-+"]
        yield head, tuple((unmarked(old), unmarked(new)) for old, new in CHANGE.findall(block))


def unmarked(lines: str) -> str:
    return "\n".join(line[1:] for line in lines.splitlines())


def read(name: str) -> list[Mutant]:
    """The mutants of a file.

    "== ORDER", or "== ORDER in FILE", is followed by what is broken, each with the property that is violated, the
    bound, and the changes.
    """
    order = source = ""
    mutants = []
    for head, changes in blocks(name):
        if head[0].startswith("== "):
            order, _, source = head[0].removeprefix("== ").partition(" in ")
            continue
        slip, found = head
        breaks, processes, messages, *others = found.split()
        more: dict[str, Any] = {
            key: int(value) if value.isdigit() else value for key, _, value in (word.partition("=") for word in others)
        }
        mutants.append(Mutant(order, slip, breaks, Bound(int(processes), int(messages), **more), changes, source))
    return mutants


MUTANTS = read("slips.txt")
# Of what orders do when processes die (on_crash=go-on): each rule removed, or weakened.
GO_ON = read("go_on.txt")

# Orders that are mutants themselves: as they are they break what they claim.
LABORATORY = [
    Mutant("cykas-telling", "in secret mode it tells the teller", "causal", Bound(3, 2), ()),
    Mutant("sync-naive", "acknowledgements queue behind blocking sends", "stuck", Bound(2, 1), ()),
    Mutant("lamport-literal", "a release delivers, whatever stands before", "total", Bound(3, 1, to_all=1), ()),
]
