# SPDX-License-Identifier: Apache-2.0
"""The blog post on sender-side causal delivery, "Some design considerations": each choice runs, and what comes of it.

Its first deadlock, of acknowledgements treated like ordinary messages, and sends without an output buffer are the order
sync-naive (test_paper_total.py).
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator

import pytest
from plays import to_one_other

import busq.check
from busq.execution import Event
from busq.stage import Packet, Stage

ALICE, BOB, CAROL = range(3)


def chosen(*destinations: tuple[int, ...]) -> tuple[tuple[frozenset[int], ...], ...]:
    return tuple(tuple(frozenset({to}) for to in of_process) for of_process in destinations)


# ---- "Should a recipient acknowledge eagerly sent messages right away, or wait ..." ----


def test_a_late_acknowledgement_and_its_yct_wait_for_each_other() -> None:
    """ "... so we should wait until getting an ack for the eagerly sent message before sending the now-you-can-tell
    message."
    """
    late = busq.check.run("cykas:ack=late", 3, 2, properties=["stuck"], search="breadth")
    assert late.counterexample is not None
    assert len(late.counterexample.steps) == 12
    assert "yct" not in {step.what for step in late.counterexample.steps}
    assert busq.check.run("cykas", 3, 2, properties=["stuck"]).holds


def test_a_yct_that_does_not_wait_for_a_late_acknowledgement_breaks_even_fifo() -> None:
    """ "... we need to make sure the now-you-can-tell message doesn't overtake the eagerly sent message ..." """
    given = {"destinations": chosen((BOB, CAROL, CAROL), (ALICE, CAROL, ALICE), (ALICE, BOB, ALICE))}
    late = busq.check.run("cykas:ack=late,own=left-out", 3, 3, properties=["fifo"], search="breadth", **given)
    assert late.counterexample is not None
    what = [step.what for step in late.counterexample.steps if step.kind == "receive" and step.process == CAROL]
    assert what == ["yct", "normal", "eager"]
    assert len(late.counterexample.steps) == 9


# ---- "Can you do an eager send as a result of an eager send?" ----


def test_an_eager_send_as_a_result_of_an_eager_send_breaks_causality() -> None:
    """ "If Bob could eagerly send a message to Carol, it could overtake Alice's message on the way to Carol, which is
    the violation of causal delivery that we wanted to prevent in the first place."
    """
    result = busq.check.run("cykas:secret=eager", 3, 2, properties=["causal"], search="breadth")
    assert result.counterexample is not None
    kinds = [step.what for step in result.counterexample.steps if step.kind == "receive"]
    assert kinds == ["eager", "eager", "normal"]
    assert len(result.counterexample.steps) == 6


def test_who_got_a_message_too_soon_keeps_silent_until_nothing_is_missing(seed: int) -> None:
    """ "She can't take any externally observable actions!  So it's not like anyone can find out that she got the
    message out of causal order."

    A process may send eagerly then, and its receiver is in secret mode as well.
    """
    n_too_soon = 0
    for number in range(60):
        n_processes = 3 + number % 3
        stage = Stage("cykas:secret=eager", n_processes)
        known: dict[int, set[int]] = defaultdict(set)  # by process: the messages whose sends lie in its past
        past: dict[int, set[int]] = {}  # by message, likewise of its send
        missing: dict[int, set[int]] = defaultdict(set)  # by process: what was sent to it and is not delivered
        for events in hasty_steps(stage, seed + number):
            for event in events:
                if event.kind == "send" and event.what in ("normal", "eager"):
                    known[event.process].add(event.message)
                    past[event.message] = set(known[event.process])
                    missing[event.peer].add(event.message)
                elif event.kind == "deliver":
                    known[event.process] |= past[event.message]
                    missing[event.process].remove(event.message)
            lacks = [process for process in range(n_processes) if known[process] & missing[process]]
            assert all(stage.gauge(process)["secret"] for process in lacks)
            n_too_soon += len(lacks)
    assert n_too_soon > 0


def hasty_steps(stage: Stage, seed: int) -> Iterator[tuple[Event, ...]]:
    """At random: as many sends as arrivals, and then all arrives."""
    chance, n_processes, n_left = random.Random(seed), len(stage.processes), 24
    while n_left or stage.packets:
        if n_left and (not stage.packets or chance.random() < 0.5):
            n_left -= 1
            sender = chance.randrange(n_processes)
            yield stage.submit(sender, to=to_one_other(chance, n_processes, sender))
        else:
            yield stage.receive(chance.choice(stage.packets).packet)


def test_secrets_that_go_in_a_circle_are_kept_for_ever() -> None:
    """A case that the post leaves out: each of two processes keeps a secret of the other."""
    result = busq.check.run("cykas:secret=eager", 3, 2, properties=["stuck"])
    assert result.counterexample is not None
    assert {step.what for step in result.counterexample.steps if step.kind == "receive"} >= {"eager", "yct"}


# ---- "... should the new message go into the output buffer ..., or should it not even be buffered yet?" ----


def test_nobody_else_can_tell_a_message_in_the_buffer_from_one_that_is_not_even_buffered(seed: int) -> None:
    """ "This I'm not sure about."

    An application that asks as soon as its process is out of secret mode, and not before, causes the same packets at
    every step.  It differs in what it waits for: one blocks, the other goes on.
    """
    n_put_off = 0
    for number in range(30):
        chance = random.Random(seed + number)
        buffered, unbuffered = Stage("cykas", 4), Stage("cykas", 4)
        put_off: list[deque[int]] = [deque() for _ in range(4)]
        for _ in range(120):
            offered = in_flight(buffered)
            assert offered == in_flight(unbuffered)
            if not offered or chance.random() < 0.25:
                process = chance.randrange(4)
                (to,) = to_one_other(chance, 4, process)
                buffered.submit(process, to=to)
                put_off[process].append(to)
            else:
                packet = chance.choice(offered)
                process = packet[0]
                for stage in (buffered, unbuffered):
                    stage.receive(next(one.packet for one in stage.packets if seen(one) == packet))
            while put_off[process] and not unbuffered.gauge(process)["secret"]:
                unbuffered.submit(process, to=put_off[process].popleft())
            n_put_off += len(put_off[process])
    assert n_put_off > 0


def seen(packet: Packet) -> tuple[int, int, str, int]:
    return packet.to, packet.sender, packet.what, packet.message


def in_flight(stage: Stage) -> list[tuple[int, int, str, int]]:
    return sorted(map(seen, stage.packets))


# ---- "A downside ... seems to be that it creates more message traffic." ----


@pytest.mark.parametrize(("order", "packets"), [("mfss", 4), ("cykas", 5)])
def test_a_secret_costs_a_packet_more(order: str, packets: int) -> None:
    """ "A downside of the "can you keep a secret?" approach seems to be that it creates more message traffic." """
    stage = Stage(order, 3)
    stage.submit(ALICE, to=BOB)
    stage.submit(ALICE, to=CAROL)
    stage.run()
    assert sum(event.kind == "send" for event in stage.execution().events) == packets
