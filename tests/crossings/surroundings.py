# SPDX-License-Identifier: Apache-2.0
"""The columns of what a feature works in: no room, another codec, a recording."""

from __future__ import annotations

import tempfile
from typing import Any, ClassVar

from crossings.event import Event, needs
from crossings.features import Json, told
from crossings.ledger import expect
from crossings.play import Play
from crossings.session import PATIENCE_S

import busq


class FullQueue(Event):
    name = "full queue"
    options: ClassVar[dict[str, Any]] = {"capacity": 8}
    says = "units are given until there is no room, and then taken; three times"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.take_all()
        counts = []
        timeout = PATIENCE_S if play.way.takes_by_itself else 0
        for _ in range(3):
            count, found = 0, None
            while isinstance(found, busq.Empty | None) and count < 200:  # what is asked is there, without a reply
                count, found = count + 1, told(lambda: play.giver.give(timeout=timeout))
            counts.append(count)
            play.take_last()
            if found is None:
                break
        expect(max(counts) - min(counts) <= play.way.slack, f"it took {counts} units until it was full")
        return found


class FullArena(FullQueue):
    name = "full arena"
    says = "the same with large units: not the queue is full, but the memory for messages"
    options: ClassVar[dict[str, Any]] = {"size": 30_000, "capacity": 64}


class OtherCodec(Event):
    name = "other codec"
    says = "all peers join with a codec of the application's own"
    options: ClassVar[dict[str, Any]] = {"codec": Json()}

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.give(10)
        return None


class Traced(Event):
    name = "traced"
    says = "the bus is recorded, and the recording is audited: every property that the order claims holds"

    def strike(self, play: Play) -> Exception | None:
        needs("pyarrow")
        with tempfile.TemporaryDirectory() as directory:
            with busq.trace.Recorder(play.session.bus, directory):
                play.open_taker()
                second = play.session.giver("second")
                second.prepare(play.take_all)
                first = play.giver
                for number in range(20):
                    play.giver = (first, second)[number % 2]
                    play.give()
                    play.take_all()
                play.giver = first
                play.take_last()
                second.settle()
                second.close()
                play.way.settle_all(play)
            found = busq.audit.audit(directory)
        wrong = [
            f"{name}: {check.text}"
            for run in found.runs
            for name, check in run.checks.items()
            if check.claimed and not check.ok and not _is_left_open_by_a_neighbour(check)
        ]
        expect(not wrong, "the audit finds " + "; ".join(wrong))
        return None


def _is_left_open_by_a_neighbour(check: busq.audit.Check) -> bool:
    """Whether all that is missing is what a neighbour sent to itself, killed just before the recording ended."""
    return check.verdict == "unknown" and "the log of neighbour-" in check.text
