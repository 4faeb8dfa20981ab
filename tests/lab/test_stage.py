# SPDX-License-Identifier: Apache-2.0
"""The stage, and the executions that it, and recorded histories, turn into."""

from __future__ import annotations

import pytest
from plays import play

from busq import errors
from busq.execution import Event, Execution, message_name
from busq.orders import ORDERS
from busq.spec import History
from busq.stage import Stage

STEADY = [name for name, order in ORDERS.items() if not order.laboratory]


def kinds(events: tuple[Event, ...]) -> list[str]:
    return [event.kind for event in events]


# ---- deciding ----


def test_nothing_arrives_unless_somebody_says_so() -> None:
    stage = Stage("none", ["ann", "bob"])
    assert kinds(stage.submit("ann", "hello", "bob")) == ["submit", "sent", "send", "done"]
    (packet,) = stage.packets
    assert (packet.what, packet.label, packet.sender, packet.to) == ("data", "hello", 0, 1)
    assert not stage.is_quiet
    assert kinds(stage.receive(packet.packet)) == ["receive", "deliver"]
    assert stage.is_quiet
    assert stage.packets == ()


def test_a_packet_arrives_once() -> None:
    stage = Stage("none", 2)
    stage.submit(0, to=1)
    stage.receive(0)
    with pytest.raises(ValueError, match="packet 0 is not in flight"):
        stage.receive(0)


def test_a_channel_that_keeps_the_order_offers_its_oldest_packet() -> None:
    fifo = [name for name in STEADY if ORDERS[name].fifo_channels]
    assert fifo
    stage = Stage(fifo[0], 3)
    for _ in range(3):
        stage.submit(1, to=[0, 2])
    packets = stage.packets
    channels = [(packet.sender, packet.to) for packet in packets]
    assert [packet.may_arrive for packet in packets] == [one not in channels[:i] for i, one in enumerate(channels)]
    late = next(packet for packet in packets if not packet.may_arrive)
    with pytest.raises(ValueError, match="keep the order"):
        stage.receive(late.packet)


def test_a_multicast_of_an_order_between_two_processes_is_split_in_the_order_given() -> None:
    stage = Stage("fifo", 4)
    stage.submit(0, "m", to=[3, 1, 0])
    execution = stage.execution()
    assert [event.peer for event in execution.events if event.kind == "submit"] == [3, 1, 0]
    copies = [message_name(0, number) for number in (1, 2, 3)]
    assert execution.destinations == {copies[0]: (3,), copies[1]: (1,), copies[2]: (0,)}
    assert execution.multicasts == dict.fromkeys(copies, copies[0])
    assert {execution.label(copy) for copy in copies} == {"m"}


def test_at_a_rendezvous_the_next_message_waits_until_the_last_is_done() -> None:
    stage = Stage("sync-naive", 2)
    stage.submit(0, "m1", 1)
    assert kinds(stage.submit(0, "m2", 1)) == ["submit"]
    assert stage.gauge(0)["outside"] == 1
    events = stage.run()
    done = kinds(events).index("done")
    sent = kinds(events).index("sent")
    assert done < sent
    assert stage.is_quiet


def test_what_an_order_has_no_room_for_waits_outside() -> None:
    stage = Stage("mfss", 2, waiting_max=2)
    for _ in range(5):
        stage.submit(0, to=1)
    assert stage.gauge(0)["outside"] > 0
    stage.run(seed=3)
    assert stage.is_quiet
    assert stage.judge()["fifo"].ok


def test_what_a_receiver_has_no_room_to_hold_back_stays_in_flight() -> None:
    stage = Stage("fifo", 2, held_max=1)
    for _ in range(3):
        stage.submit(0, to=1)
    stage.receive(2)
    before = stage.execution()
    with pytest.raises(errors.Full):
        stage.receive(1)
    assert stage.execution() == before
    assert [packet.packet for packet in stage.packets] == [0, 1]
    stage.receive(0)
    stage.receive(1)
    assert stage.is_quiet


def test_an_alarm_goes_off_as_often_as_it_was_set() -> None:
    stage = Stage("fifo:on_gap=skip", 2)
    with pytest.raises(ValueError, match="set no alarm"):
        stage.tick(1)
    stage.submit(0, to=1)
    stage.submit(0, to=1)
    stage.receive(1)
    assert stage.gauge(1)["alarms"] == 1
    while stage.gauge(1)["alarms"]:
        stage.tick(1)
    with pytest.raises(ValueError, match="set no alarm"):
        stage.tick(1)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of"):
        Stage("best-order", 2)
    with pytest.raises(ValueError, match="named twice"):
        Stage("none", ["ann", "ann"])
    with pytest.raises(ValueError, match="expected 1 to 4096"):
        Stage("none", 0)
    stage = Stage("none", 2)
    for to, complaint in (((), "no destination"), ((1, 1), "given twice"), (2, "not one of"), (-1, "not one of")):
        with pytest.raises(ValueError, match=complaint):
            stage.submit(0, to=to)
    assert stage.execution().events == ()


# ---- being stuck ----


def test_what_is_stuck_says_where_it_is() -> None:
    stage = Stage("fifo", ["ann", "bob", "cleo"])
    for label, to in (("lost", "bob"), ("held", "bob"), ("flying", "cleo")):
        stage.submit("ann", label, to)
    stage.lose(stage.find(label="lost").packet)
    stage.receive(stage.find(label="held").packet)
    assert {(one.label, one.to, one.where) for one in stage.stuck} == {
        ("lost", 1, "lost"),
        ("held", 1, "held"),
        ("flying", 2, "in flight"),
    }
    stage = Stage("mfss", 2)
    stage.submit(0, "first", 1)
    stage.submit(0, "second", 1)
    assert [(one.label, one.where) for one in stage.stuck] == [("first", "in flight"), ("second", "waiting")]


# ---- the same decisions, the same events ----


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_decisions_give_the_same_events(order: str, seed: int) -> None:
    one = play(order, 3, seed).execution()
    assert one.events
    assert play(order, 3, seed).execution() == one
    others = [play(order, 3, seed + more).execution() for more in (1, 2, 3)]
    assert any(other != one for other in others)


@pytest.mark.parametrize("order", STEADY)
def test_little_room_changes_when_things_happen_and_not_what(order: str, seed: int) -> None:
    """With room for one message of its own, a process must refuse, wait and go on; nothing is lost by it."""
    stage = play(order, 3, seed, waiting_max=1)
    assert stage.is_quiet
    claimed = ORDERS[order].claims
    assert {name for name, verdict in stage.judge(claimed).items() if not verdict.ok} == set()


# ---- executions ----


@pytest.mark.parametrize("order", ORDERS)
def test_stage_and_execution_tell_the_same_history(order: str, seed: int) -> None:
    stage = play(order, 4, seed)
    execution = stage.execution()
    assert stage.judge() == execution.judge()
    for whole in (False, True):
        assert stage.history(whole=whole).facts() == execution.history(whole=whole).facts()


@pytest.mark.parametrize("order", ORDERS)
def test_every_packet_that_arrives_was_sent(order: str, seed: int) -> None:
    execution = play(order, 4, seed).execution()
    sent: dict[int, Event] = {}
    for event in execution.events:
        if event.kind == "send":
            assert event.packet not in sent
            sent[event.packet] = event
        elif event.kind == "receive":
            send = sent.pop(event.packet)
            assert (send.process, send.peer, send.what, send.message, send.time_s < event.time_s) == (
                event.peer,
                event.process,
                event.what,
                event.message,
                True,
            )
    times = [event.time_s for event in execution.events]
    assert times == sorted(times)


def test_an_execution_is_kept_as_text(seed: int) -> None:
    stage = play("cykas", 4, seed)
    stage.work(2, stage.execution().events[0].message)
    stage.rest(2)
    execution = stage.execution()
    assert Execution.from_json(execution.as_json()) == execution
    assert len(execution.as_json().splitlines()) < len(execution.events) + 20


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "busq execution 99"}', '{"format": "busq execution 1", "order": "none"}']
)
def test_other_text_is_no_execution(text: str) -> None:
    with pytest.raises(ValueError, match="not an execution"):
        Execution.from_json(text)


@pytest.mark.parametrize(
    "bad",
    [
        Event(1, 1, "job"),
        Event(1, 0, "dance"),
        Event(1, 0, "send", peer=7),
        Event(1, 0, "deliver", -1),
        Event(1, "p", "job"),  # type: ignore[arg-type]
        Event(1, 0, "deliver", "m1"),  # type: ignore[arg-type]
    ],
)
def test_an_event_that_cannot_be_is_no_execution(bad: Event) -> None:
    with pytest.raises(ValueError, match="not an execution"):
        Execution.from_json(Execution("none", ("p",), (bad,)).as_json())


def test_a_destination_that_is_not_there_is_no_execution() -> None:
    text = Execution("none", ("p",), (Event(1, 0, "sent", 1),), destinations={1: (1,)}).as_json()
    with pytest.raises(ValueError, match=r"not an execution.*destinations"):
        Execution.from_json(text)


def test_a_verdict_uses_the_labels() -> None:
    stage = Stage("none", ["ann", "bob"])
    stage.submit("ann", "early", "bob")
    stage.submit("ann", "late", "bob")
    stage.receive(1)
    stage.receive(0)
    assert stage.judge(["fifo"])["fifo"].text == "bob delivered late before early, but ann sent early before late"


def test_whether_receivers_agree_is_a_question_about_whole_multicasts() -> None:
    stage = Stage("fifo", 4)
    stage.submit(0, "a", [2, 3])
    stage.submit(1, "b", [2, 3])
    for to, first in ((2, "a"), (3, "b")):
        stage.receive(stage.find(to=to, label=first).packet)
    stage.run()
    verdicts = stage.judge()
    assert not verdicts["consistent"].ok
    assert stage.history().judge()["consistent"].ok, "copies of a multicast have no common receiver"


def test_jobs_stand_where_they_were_said() -> None:
    stage = Stage("none", 2)
    stage.submit(0, "m", 1)
    stage.receive(0)
    stage.work(1, message_name(0, 1))
    stage.submit(1, "n", 0)
    stage.rest(1, message_name(0, 1))
    found = [(event.kind, event.process) for event in stage.execution().events]
    assert found.index(("deliver", 1)) < found.index(("job", 1)) < found.index(("submit", 1)) < found.index(("rest", 1))


# ---- recorded histories ----


@pytest.mark.parametrize("order", STEADY)
def test_a_recorded_history_becomes_an_execution_that_is_judged_alike(order: str, seed: int) -> None:
    history = play(order, 4, seed).history()
    execution = Execution.from_history(history, order=order)
    assert execution.judge() == history.judge()
    sends = {event.packet: event for event in execution.events if event.kind == "send"}
    for event in execution.events:
        if event.kind == "receive":
            assert sends[event.packet].time_s < event.time_s
    clock = [0.0] * 4
    for event in execution.events:
        assert event.time_s >= clock[event.process]
        clock[event.process] = event.time_s


def test_a_history_that_cannot_be_becomes_an_execution_all_the_same() -> None:
    history = History(["ann", "bob"])
    history.deliver("ann", 1)
    history.send("ann", 2, "bob")
    history.deliver("bob", 2)
    history.send("bob", 1, "ann")
    history.deliver("bob", 99)
    execution = Execution.from_history(history)
    assert execution.judge(["impossible", "phantom"]) == history.judge(["impossible", "phantom"])
    assert execution.label(99) == "m99"
