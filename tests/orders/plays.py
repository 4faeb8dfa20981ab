# SPDX-License-Identifier: Apache-2.0
"""Executions at random, on a stage: what tests of orders draw from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from busq.execution import Event
from busq.stage import Packet, Stage

Draw = Callable[[random.Random, int, int], list[int]]


def to_one_other(chance: random.Random, processes: int, sender: int) -> list[int]:
    return [chance.choice([process for process in range(processes) if process != sender])]


def to_some_others(chance: random.Random, processes: int, sender: int) -> list[int]:
    others = [process for process in range(processes) if process != sender]
    return chance.sample(others, chance.randint(1, len(others)))


def to_some(chance: random.Random, processes: int, sender: int) -> list[int]:
    """Perhaps to itself too."""
    return chance.sample(range(processes), chance.randint(1, processes))


def to_all_others(_: random.Random, processes: int, sender: int) -> list[int]:
    return [process for process in range(processes) if process != sender]


def to_or_from_the_center(chance: random.Random, processes: int, sender: int) -> list[int]:
    """A star: all processes send to process 0, and process 0 to any of them."""
    return to_one_other(chance, processes, sender) if sender == 0 else [0]


def play(
    order: str,
    processes: int,
    seed: int,
    *,
    messages: int = 12,
    draw: Draw = to_some,
    hasty: bool = False,
    **sizes: int,
) -> Stage:
    """Random processes send, a few packets arrive between one send and the next, and then everything does."""
    chance = random.Random(f"{order} {processes} {seed}")
    stage = Stage(order, processes, **sizes)
    pace = chance.choice((2, 3, 2 * processes))
    for _ in range(messages):
        stage.run_silently(chance.getrandbits(64), limit=chance.randrange(pace), hasty=hasty)
        sender = chance.randrange(processes)
        stage.submit(sender, to=draw(chance, processes, sender))
    stage.run_silently(chance.getrandbits(64), hasty=hasty)
    return stage


@dataclass(frozen=True)
class Step:
    """One decision, and what it caused: a process submits (`to`), or a packet arrives."""

    process: int
    to: list[int]
    packet: Packet | None
    events: tuple[Event, ...]


def steps(stage: Stage, seed: int, *, messages: int = 12, draw: Draw = to_some) -> Iterator[Step]:
    """As play, decision by decision."""
    chance = random.Random(f"{stage.order} {seed}")
    processes = len(stage.processes)
    while messages or stage.packets:
        offered = [packet for packet in stage.packets if packet.may_arrive]
        if messages and (not offered or chance.random() < 0.25):
            messages -= 1
            sender = chance.randrange(processes)
            to = draw(chance, processes, sender)
            yield Step(sender, to, None, stage.submit(sender, to=to))
        else:
            packet = chance.choice(offered)
            yield Step(packet.to, [], packet, stage.receive(packet.packet))
