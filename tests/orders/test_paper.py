# SPDX-License-Identifier: Apache-2.0
"""One test per sentence of the sources, quoted with its section, and checked on the compiled orders.

The sources: the Cykas paper (sections 2 and 3), the lecture notes on FIFO and causal delivery, Garg's chapter 12
(section 12.2 and its problems).  Then, side by side with the compiled orders, the algorithms as they are written
(literal.py): the same packets and deliveries at every step of random executions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby, pairwise

import pytest
from literal import Cykas, CykasYctAcked, CykasYctUnack, CykasYctWaits, Deed, MatrixCausal, Mfss, VectorCausal
from plays import Draw, play, steps, to_all_others, to_one_other, to_or_from_the_center, to_some, to_some_others

from busq.execution import Event, Execution, message_name
from busq.orders import ORDERS
from busq.spec import History
from busq.stage import Stage

PLAYS = 40


@pytest.fixture
def executions(seed: int) -> Callable[[str], list[Execution]]:
    """Random executions of an order, with 2 to 5 processes, that came to rest."""

    def of(order: str) -> list[Execution]:
        stages = [play(order, 2 + number % 4, seed + number, messages=16) for number in range(PLAYS)]
        assert all(stage.is_quiet for stage in stages)
        return [stage.execution() for stage in stages]

    return cache(of)


def at_process(execution: Execution, process: int) -> list[Event]:
    return [event for event in execution.events if event.process == process]


def each_process(executions: list[Execution]) -> Iterator[list[Event]]:
    for execution in executions:
        for process in range(len(execution.processes)):
            yield at_process(execution, process)


def by_step(events: list[Event]) -> Iterator[list[Event]]:
    for _, group in groupby(events, key=lambda event: event.time_s):
        yield list(group)


def deeds(events: list[Event] | tuple[Event, ...]) -> list[Deed]:
    """What a process did, in the words of literal.py."""
    found: list[Deed] = []
    for event in events:
        if event.kind == "send":
            found.append((event.what, event.message, event.peer))
        elif event.kind == "deliver":
            found.append(("deliver", event.message))
    return found


PAYLOADS = ("data", "normal", "eager")


# ---- Cykas paper, section 2.1: MFSS ----


def test_mfss_waits_for_an_acknowledgment(executions: Callable[[str], list[Execution]]) -> None:
    """ "... after sending a message, a process must wait for an acknowledgment from the recipient before sending
    another message."  (2.1)"""
    for events in each_process(executions("mfss")):
        turns = [event.kind for event in events if (event.kind, event.what) in (("send", "data"), ("receive", "ack"))]
        assert turns[::2] == ["send"] * (len(turns) // 2)
        assert turns[1::2] == ["receive"] * (len(turns) // 2)
    assert any(event.what == "ack" for one in executions("mfss") for event in one.events)


def test_mfss_has_two_types_of_messages() -> None:
    """ "There are therefore two message types in the MFSS protocol: normal messages and acknowledgement messages."
    (2.1)"""
    assert len(ORDERS["mfss"].kinds) == 2


def test_mfss_sends_first_in_first_out(executions: Callable[[str], list[Execution]]) -> None:
    """ "On each process, outgoing normal messages go into a FIFO queue, the output buffer."  (2.1)"""
    for events in each_process(executions("mfss")):
        submitted = [event.message for event in events if event.kind == "submit" and event.peer != event.process]
        sent = [event.message for event in events if event.kind == "send" and event.what == "data"]
        assert sent == submitted


@pytest.mark.parametrize("order", ["mfss", "cykas"])
def test_sender_side_orders_deliver_in_receipt_order(order: str, executions: Callable[[str], list[Execution]]) -> None:
    """ "On the recipient's end, messages are received and delivered in receipt order."  (2.1)"""
    for events in each_process(executions(order)):
        for step in by_step(events):
            received = [event.message for event in step if event.kind == "receive" and event.what in PAYLOADS]
            delivered = [event.message for event in step if event.kind == "deliver" and event.message in received]
            assert received == delivered


def test_an_application_goes_on_while_its_messages_wait() -> None:
    """ "A process may place a normal message into the output buffer and then continue running."  (2.1)"""
    stage = Stage("mfss", 2)
    for _ in range(5):
        stage.submit(0, to=1)
    assert stage.gauge(0) == {"waiting": 5, "outside": 0, "held": 0, "secret": 0, "alarms": 0}


def test_an_acknowledgment_passes_the_output_buffer() -> None:
    """ "Acknowledgment messages do not go through the output buffer; they are sent immediately in response to a normal
    message being received and delivered."  (2.1)"""
    stage = Stage("mfss", 2)
    stage.submit(1, "one", 0)
    stage.submit(1, "two", 0)
    stage.submit(0, "hello", 1)
    assert stage.gauge(1)["waiting"] == 2
    assert deeds(stage.receive(stage.find(label="hello").packet)) == [
        ("deliver", message_name(0, 1)),
        ("ack", message_name(0, 1), 0),
    ]


# ---- Cykas paper, section 2.1: Cykas ----


def test_cykas_has_four_types_of_messages() -> None:
    """ "In all, there are four types of messages in the Cykas protocol: Normal Send, Eager Send, YCT, and ACK."
    (2.1)"""
    assert set(ORDERS["cykas"].kinds) - {"flush"} == {"normal", "eager", "yct", "ack"}  # flush: of on_crash=go-on


def test_an_eager_send_is_delivered_upon_receipt() -> None:
    """ "An Eager Send also contains a payload and will be delivered upon receipt."  (2.1)"""
    stage = Stage("cykas", 3)
    stage.submit(0, "first", 1)
    stage.submit(0, "second", 2)
    packet = stage.find(what="eager")
    assert packet.label == "second"
    assert ("deliver", packet.message) in deeds(stage.receive(packet.packet))


def test_a_normal_send_restricts_nobody() -> None:
    """ "Receipt of a Normal Send imposes no restrictions on the receiving process."  (2.1)"""
    stage = Stage("cykas", 3)
    stage.submit(0, to=1)
    stage.receive(stage.find(what="normal").packet)
    assert not stage.gauge(1)["secret"]
    assert [deed[0] for deed in deeds(stage.submit(1, to=2))] == ["normal"]


def test_an_eager_send_makes_its_receiver_keep_silent() -> None:
    """ "Upon receiving an Eager Send message, however, a process goes into secret mode."  (2.1)"""
    stage = Stage("cykas", 3)
    stage.submit(0, to=1)
    stage.submit(0, to=2)
    stage.receive(stage.find(what="eager").packet)
    assert stage.gauge(2)["secret"]
    assert deeds(stage.submit(2, to=1)) == []


def secret_counts(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Every event of a process, with the number of Eager Sends received before it whose YCT has not come."""
    awaited = 0
    for event in events:
        yield event, awaited
        if event.kind == "receive":
            awaited += (event.what == "eager") - (event.what == "yct")


def test_in_secret_mode_only_acks_and_ycts_are_sent(executions: Callable[[str], list[Execution]]) -> None:
    """ "In secret mode, a process may take internal actions and receive messages, but cannot send any messages except
    ACK and YCT."  (2.1)"""
    said: Counter[str] = Counter()
    heard = 0
    for events in each_process(executions("cykas")):
        for event, awaited in secret_counts(events):
            said[event.what] += event.kind == "send" and awaited > 0
            heard += event.kind == "deliver" and awaited > 1
    assert +said == Counter({what: said[what] for what in ("ack", "yct")})
    assert said["ack"] > 0
    assert said["yct"] > 0
    assert heard > 0, "somebody in secret mode was told another secret"


def test_every_eager_send_is_followed_by_its_yct(executions: Callable[[str], list[Execution]]) -> None:
    """ "A process that sends an Eager Send must follow it with a corresponding YCT message to the same recipient, which
    is used to unblock the recipient from sending messages."  (2.1; Lemma 3.4)"""
    for execution in executions("cykas"):
        open_secrets: set[tuple[int, int, int]] = set()
        for event in execution.events:
            secret = event.process, event.peer, event.message
            if event.kind == "send" and event.what == "eager":
                open_secrets.add(secret)
            elif event.kind == "send" and event.what == "yct":
                open_secrets.remove(secret)
        assert not open_secrets


def test_secret_mode_lasts_as_long_as_a_yct_is_awaited(executions: Callable[[str], list[Execution]]) -> None:
    """ "A process leaves secret mode, returning to normal mode, when it has received YCT messages for any Eager Send
    messages it previously received."  (2.1)"""
    for events in each_process(executions("cykas")):
        is_secret = False
        for step in by_step(events):
            *_, (last, awaited) = secret_counts([event for event in events if event.time_s <= step[0].time_s])
            awaited += (last.what == "eager") - (last.what == "yct") if last.kind == "receive" else 0
            for event in step:
                if event.kind in ("secret", "open"):
                    assert is_secret != (event.kind == "secret")
                    is_secret = event.kind == "secret"
            assert is_secret == (awaited > 0)


def test_normal_and_eager_sends_are_acknowledged(executions: Callable[[str], list[Execution]]) -> None:
    """ "Finally, a process that receives any of the above message types sends ACK back to the sender to acknowledge the
    receipt and delivery of the message."  (2.1; what is delivered, by Algorithm 3: a YCT is not.  What comes of it
    where a YCT is acknowledged too: docs/results/cykas-to-the-letter.md)"""
    for events in each_process(executions("cykas")):
        for step in by_step(events):
            for event in step:
                if event.kind == "receive":
                    acks = [one.peer for one in step if one.kind == "send" and one.what == "ack"]
                    assert acks == ([event.peer] if event.what in PAYLOADS else [])


# ---- Cykas paper, section 2.2 ----


def unacknowledged(events: list[Event]) -> Iterator[tuple[Event, list[int]]]:
    """Every event of a process, with the processes that had not acknowledged a message from it."""
    waiting: list[int] = []
    for event in events:
        yield event, waiting
        if event.kind == "send" and event.what in PAYLOADS:
            waiting = [*waiting, event.peer]
        elif event.kind == "receive" and event.what == "ack":
            waiting = [peer for peer in waiting if peer != event.peer]


def test_one_message_to_each_recipient_is_unacknowledged(executions: Callable[[str], list[Execution]]) -> None:
    """ "If a process running in normal mode network-sends a message to a recipient but has not received an ACK, [it]
    cannot network-send a message to the same recipient until receiving the ACK.  However, it may network-send a message
    to another recipient."  (2.2.2)"""
    most = 0
    for events in each_process(executions("cykas")):
        for event, waiting in unacknowledged(events):
            most = max(most, len(waiting))
            if event.kind == "send" and event.what in PAYLOADS:
                assert event.peer not in waiting
    assert most > 1


def test_what_follows_something_unacknowledged_is_eager(executions: Callable[[str], list[Execution]]) -> None:
    """ "If [it] has network-sent any un-ACKed messages, the new message will be an Eager Send ...; otherwise, it will
    be a Normal Send ..."  (2.2.2)"""
    seen = Counter[str]()
    for events in each_process(executions("cykas")):
        for event, waiting in unacknowledged(events):
            if event.kind == "send" and event.what in PAYLOADS:
                assert event.what == ("eager" if waiting else "normal")
                seen[event.what] += 1
    assert min(seen["eager"], seen["normal"]) > 0


def test_a_yct_waits_for_what_was_unacknowledged(executions: Callable[[str], list[Execution]]) -> None:
    """ "In each bitvector, the bit at index [j] represents whether the process is waiting for an ACK from [j] to send a
    YCT."  (2.2.1)"""
    for events in each_process(executions("cykas")):
        waits_for: dict[int, set[int]] = {}
        for event, waiting in unacknowledged(events):
            if event.kind == "send" and event.what == "eager":
                waits_for[event.message] = {*waiting, event.peer}
            elif event.kind == "receive" and event.what == "ack":
                for peers in waits_for.values():
                    peers.discard(event.peer)
            elif event.kind == "send" and event.what == "yct":
                assert waits_for.pop(event.message) == set()
            if event.kind in ("submit", "receive"):
                ready = [message for message, peers in waits_for.items() if not peers]
                step = [one for one in events if one.time_s == event.time_s and one.what == "yct"]
                assert set(ready) <= {one.message for one in step}, "it is sent at once"


def test_acks_and_ycts_are_not_delivered(executions: Callable[[str], list[Execution]]) -> None:
    """ "ACK messages are not delivered to the application, only used by the Cykas protocol." and the same of YCTs
    (2.2.2)"""
    for events in each_process(executions("cykas")):
        for step in by_step(events):
            if any(event.kind == "receive" and event.what in ("ack", "yct") for event in step):
                assert not any(event.kind == "deliver" for event in step)


def test_the_head_of_the_ob_goes_out_as_soon_as_it_can(executions: Callable[[str], list[Execution]]) -> None:
    """ "Whenever a Cykas process receives an ACK or YCT message, and whenever a new message is inserted into the OB,
    the Cykas process will determine whether the message at the head of the [OB] can be sent ..."  (2.2.1)"""
    for events in each_process(executions("cykas")):
        ob: list[Event] = []
        waiting: list[int] = []
        awaited = 0
        for step in by_step(events):
            for event in step:
                if event.kind == "submit" and event.peer != event.process:
                    ob.append(event)
                elif event.kind == "send" and event.what in PAYLOADS:
                    assert ob.pop(0).message == event.message
                    waiting.append(event.peer)
                elif event.kind == "receive" and event.what == "ack":
                    waiting.remove(event.peer)
                elif event.kind == "receive":
                    awaited += (event.what == "eager") - (event.what == "yct")
            assert not ob or awaited or ob[0].peer in waiting


# ---- Cykas paper, sections 2.3 and 3 ----


def test_telling_the_teller_violates_causality(seed: int) -> None:
    """ "However, allowing communication with an eager sender would admit causality violations."  (2.3; figure 3 is a
    scenario, here they are met by chance)"""
    assert any(
        not play("cykas-telling", 3, seed + number, draw=to_one_other).judge(["causal"])["causal"].ok
        for number in range(6000)  # 1 in 160 does
    )


@pytest.mark.parametrize("order", ["mfss", "cykas"])
def test_proposition_3_1_safety(order: str, executions: Callable[[str], list[Execution]]) -> None:
    """ "Any execution of Cykas with distinct send events ..., and corresponding receive-deliver events ..., satisfies
    causally ordered delivery."  (3.1)"""
    for execution in executions(order):
        assert execution.judge(["causal"])["causal"].ok


@pytest.mark.parametrize("order", ["mfss", "cykas"])
def test_proposition_3_2_liveness(order: str, executions: Callable[[str], list[Execution]]) -> None:
    """ "All messages in an OB will be network-sent eventually."  (3.2)"""
    for execution in executions(order):
        submitted = {event.message for event in execution.events if event.kind == "submit"}
        assert submitted == {event.message for event in execution.events if event.kind == "sent"}
        assert submitted == {event.message for event in execution.events if event.kind == "deliver"}


def test_lemma_3_3_every_bit_of_unack_is_cleared(executions: Callable[[str], list[Execution]]) -> None:
    """ "Every bit in UNACK will be set to [0] eventually."  (3.2)"""
    for events in each_process(executions("cykas")):
        waiting = [peers for _, peers in unacknowledged([*events, Event(0, 0, "rest")])][-1]
        assert waiting == []


def test_lemma_3_5_secret_mode_ends(executions: Callable[[str], list[Execution]]) -> None:
    """ "MODE will become [0] eventually."  (3.2)"""
    for events in each_process(executions("cykas")):
        assert [awaited for _, awaited in secret_counts([*events, Event(0, 0, "rest")])][-1] == 0


def test_mfss_is_stronger_than_causal_order() -> None:
    """ "The MFSS protocol is stronger in a formal sense than general causally ordered communication - that is, the
    executions allowed by it are a strict subset of those allowed by the causal order."  (6)

    Under cykas Bob may have m2 before Carol has m1, and no order of arrivals gives that under mfss."""
    stage = Stage("cykas", ["alice", "bob", "carol"])
    stage.submit("alice", "m1", "carol")
    stage.submit("alice", "m2", "bob")
    stage.receive(stage.find(to="bob", label="m2").packet)
    stage.run(seed=1)
    assert stage.judge()["causal"].ok
    assert delivery_order(stage.execution()) == ["m2", "m1"]
    found = set()
    for number in range(50):
        stage = Stage("mfss", ["alice", "bob", "carol"])
        stage.submit("alice", "m1", "carol")
        stage.submit("alice", "m2", "bob")
        stage.run(seed=number)
        found.add(tuple(delivery_order(stage.execution())))
    assert found == {("m1", "m2")}


def delivery_order(execution: Execution) -> list[str]:
    return [execution.label(event.message) for event in execution.events if event.kind == "deliver"]


# ---- lecture notes: FIFO delivery ----


def test_messages_are_numbered_per_receiver() -> None:
    """ "messages are tagged with the sender ID, and sender sequence number; senders increment their sequence number
    after sending" (sequence numbers)"""
    stage = Stage("fifo", 3)
    for to in (1, 2, 1, 1, 2):
        stage.submit(0, to=to)
    numbers = defaultdict(list)
    for packet in stage.packets:
        numbers[packet.sender, packet.to].append(packet.stamp)
    assert numbers == {(0, 1): [1, 2, 3], (0, 2): [1, 2]}


def test_the_next_number_is_delivered_and_others_are_not(seed: int) -> None:
    """ "if a received message's sequence number is (previously received seq num) + 1, deliver it" (sequence numbers)"""
    n_held = 0
    for number in range(20):  # 1 in 1,000 holds nothing back
        stage = Stage("fifo", 4)
        last: Counter[tuple[int, int]] = Counter()
        held: dict[tuple[int, int], set[int]] = defaultdict(set)
        for step in steps(stage, seed + number, messages=60, draw=to_some_others):
            if not step.packet:
                continue
            channel = step.packet.sender, step.packet.to
            held[channel].add(step.packet.stamp)
            expected = 0
            while last[channel] + 1 in held[channel]:
                last[channel] += 1
                expected += 1
            n_held += not expected
            assert sum(event.kind == "deliver" for event in step.events) == expected
        if n_held:
            break
    assert n_held > 0


def test_without_reliable_delivery_fifo_buffers_for_ever() -> None:
    """ "However, this only works well if you also have reliable delivery - if not, and the receiver misses one, it will
    buffer all future messages forever."  (sequence numbers)"""
    stage = Stage("fifo", 2)
    for _ in range(20):
        stage.submit(0, to=1)
    stage.lose(0)
    stage.run(seed=5)
    assert stage.gauge(1)["held"] == 19
    assert not any(event.kind == "deliver" for event in stage.execution().events)


def test_a_gap_may_be_ignored_and_what_was_missed_is_dropped(seed: int) -> None:
    """ "There are some solutions to this - like ignoring the missed message and delivering all buffered ones - but if
    the missed one shows up later, it has to be dropped."  (sequence numbers)"""
    dropped = 0
    for number in range(30):
        stage = play("fifo:on_gap=skip", 3, seed + number, messages=30, draw=to_one_other, hasty=True)
        verdicts = stage.judge(["fifo", "lost", "duplicated"])
        drops = sum(event.kind == "drop" for event in stage.execution().events)
        assert stage.is_quiet
        assert verdicts["fifo"].ok
        assert verdicts["duplicated"].ok
        assert verdicts["lost"].count == drops
        dropped += drops
    assert dropped > 0


def test_dropping_everything_is_fifo() -> None:
    """ "Also, just dropping every single message satisfies FIFO vacuously."  (sequence numbers)"""
    history = History(2)
    history.send_many(0, range(1, 10), 1)
    verdicts = history.judge()
    assert verdicts["fifo"].ok
    assert verdicts["lost"].count == 9


def test_alice_waits_for_bobs_acknowledgement(executions: Callable[[str], list[Execution]]) -> None:
    """ "Another implementation is ACK - Alice waits for Bob to send an acknowledgement before sending the next
    message."  (ACK)"""
    for events in each_process(executions("fifo-ack")):
        for event, waiting in unacknowledged(events):
            if event.kind == "send" and event.what == "data":
                assert event.peer not in waiting


def test_acknowledging_takes_a_round_trip_per_message() -> None:
    """ "However, it's a lot slower since it requires a full round trip per message."  (ACK)

    Where every packet takes one unit of time, ten messages to one receiver arrive after 1 unit under fifo, and the last
    of them after 19 under fifo-ack."""
    assert units_until_delivered("fifo", 10) == 1
    assert units_until_delivered("fifo-ack", 10) == 19


def units_until_delivered(order: str, messages: int) -> int:
    stage = Stage(order, 2)
    for _ in range(messages):
        stage.submit(0, to=1)
    units = 0
    while any(one.where != "held" for one in stage.stuck):
        units += 1
        for packet in stage.packets:
            stage.receive(packet.packet)
    return units


# ---- lecture notes: causal delivery ----


def test_a_violation_of_fifo_is_one_of_causal_order(executions: Callable[[str], list[Execution]]) -> None:
    """ "The violation of FIFO delivery above is also a violation of causal delivery" """
    broken = 0
    for execution in executions("none"):
        verdicts = execution.judge(["fifo", "causal"])
        assert verdicts["causal"].count >= verdicts["fifo"].count
        broken += not verdicts["fifo"].ok
    assert broken > 0


def test_fifo_accounts_for_messages_of_a_single_sender_only(executions: Callable[[str], list[Execution]]) -> None:
    """ "Note that however, this diagram does not violate FIFO delivery, since FIFO delivery only accounts for messages
    sent from a single process.  It is a violation of causal delivery, though." """
    verdicts = [execution.judge(["fifo", "causal"]) for execution in executions("fifo")]
    assert all(verdict["fifo"].ok for verdict in verdicts)
    assert not all(verdict["causal"].ok for verdict in verdicts)


# ---- Garg, section 12.2 and problems ----


def test_a_message_waits_for_what_its_matrix_tells_of(seed: int) -> None:
    """ "If for some k, W[k,i] > M[k,i], then there is a message that was sent in the causal history of the message and
    has not arrived yet.  Therefore, P_i must wait for that message to be delivered before it can accept the message m."
    (12.2)"""
    n_held = 0
    for number in range(20):  # 1 in 250 holds nothing back
        stage = Stage("causal-matrix", 4)
        for step in steps(stage, seed + number, messages=40, draw=to_some_others):
            if not step.packet or any(event.kind == "deliver" for event in step.events):
                continue
            n_held += 1
            awaited = missing_causes(stage.execution(), step.packet.message, step.process)
            assert awaited, f"{step.packet.label} was held back for nothing"
        if n_held:
            break
    assert n_held > 0


def missing_causes(execution: Execution, message: int, process: int) -> set[int]:
    """Messages to the process in the past of this one that it has not delivered."""
    past: dict[int, set[int]] = defaultdict(set)  # by process: messages whose send it knows of
    knows: dict[int, set[int]] = {}
    delivered = set()
    for event in execution.events:
        if event.kind == "sent":
            knows[event.message] = set(past[event.process])
            past[event.process].add(event.message)
        elif event.kind == "deliver":
            past[event.process] |= knows[event.message] | {event.message}
            if event.process == process:
                delivered.add(event.message)
    return {one for one in knows[message] if process in execution.destinations[one]} - delivered


def test_nothing_is_held_back_without_a_cause(seed: int) -> None:
    """ "Intuitively, causal ordering requires that a single message not be overtaken by a sequence of messages."
    (12.1)

    The converse of the last test: what a matrix clock lets through has nothing to wait for, so that it never waits
    longer than causal order asks for."""
    stage = Stage("causal-matrix", 4)
    for step in steps(stage, seed, messages=40, draw=to_some_others):
        if step.packet:
            is_delivered = any((e.kind, e.message) == ("deliver", step.packet.message) for e in step.events)
            missing = missing_causes_before(stage, step.packet.message, step.process)
            assert is_delivered == (not missing)


def missing_causes_before(stage: Stage, message: int, process: int) -> set[int]:
    """Those that had not been delivered when the last packet arrived."""
    execution = stage.execution()
    now = execution.events[-1].time_s
    events = tuple(event for event in execution.events if event.time_s < now)
    before = Execution(execution.order, execution.processes, events, {}, execution.destinations)
    return missing_causes(before, message, process)


def test_problem_12_4_broadcasts_need_only_a_vector(seed: int) -> None:
    """ "Assume that all messages are broadcast messages.  How can you simplify the algorithm ... under this condition?"
    (problem 12.4)

    By a vector: the same packets give the same deliveries at every step."""
    vector, matrix = Stage("causal-vector", 4), Stage("causal-matrix", 4)
    for step in steps(vector, seed, messages=40, draw=to_all_others):
        if step.packet:
            other = matrix.receive(matrix.find(step.process, label=step.packet.label).packet)
        else:
            other = matrix.submit(step.process, to=step.to)
        assert sorted(delivery_order(execution_of(vector, step.events))) == sorted(
            delivery_order(execution_of(matrix, other))
        )
    assert vector.is_quiet
    assert matrix.is_quiet


def execution_of(stage: Stage, events: tuple[Event, ...]) -> Execution:
    return Execution(stage.order, stage.processes, events, stage.execution().labels)


def test_problem_12_5_fifo_suffices_around_a_center(seed: int) -> None:
    """ "Consider a system of N + 1 processes ... in which processes P_1 through P_N can only send messages to P_0 or
    receive messages from P_0.  Show that if all channels in the system are FIFO, then any computation on this system is
    causally ordered."  (problem 12.5)"""
    for number in range(PLAYS):
        stage = play("fifo", 5, seed + number, messages=40, draw=to_or_from_the_center)
        assert stage.judge(["causal"])["causal"].ok
    anywhere = [play("fifo", 5, seed + number, messages=40, draw=to_one_other) for number in range(PLAYS)]
    assert not all(stage.judge(["causal"])["causal"].ok for stage in anywhere)


# ---- side by side with the algorithms as they are written ----


def side_by_side(order: str, make: type[Cykas] | type[Mfss], processes: int, seed: int, draw: Draw) -> Counter[str]:
    """Hold every step of a random execution against the transcription; how often each kind of packet arrived."""
    stage = Stage(order, processes)
    literal = [make(me, processes) for me in range(processes)]
    seen: Counter[str] = Counter()
    for step in steps(stage, seed, messages=30, draw=draw):
        one = literal[step.process]
        expected: list[Deed] = []
        if step.packet is None:
            for event in step.events:
                if event.kind == "submit":
                    own = event.peer == event.process
                    expected += [("deliver", event.message)] if own else one.application_send(event.message, event.peer)
        elif step.packet.what == "ack":
            expected = one.receive_ack(step.packet.sender)
        elif step.packet.what == "yct":
            assert isinstance(one, Cykas)
            expected = one.receive_yct(step.packet.message, step.packet.sender)
        else:
            expected = one.receive_deliver(step.packet.what, step.packet.message, step.packet.sender)
        assert in_order(deeds(step.events)) == in_order(expected)
        seen[step.packet.what if step.packet else "submit"] += 1
    assert all(one.is_at_rest for one in literal)
    assert stage.is_quiet
    return seen


def in_order(found: list[Deed]) -> tuple[list[Deed], list[Deed]]:
    """YCTs of one step go to different processes or follow each other: their order in the list means nothing."""
    ycts = sorted(deed for deed in found if deed[0] == "yct")
    return ycts, [deed for deed in found if deed[0] != "yct"]


@pytest.mark.parametrize("draw", [to_one_other, to_some], ids=lambda draw: draw.__name__)
def test_cykas_is_algorithms_1_to_5(draw: Draw, seed: int) -> None:
    """The compiled order keeps one window of messages where the paper keeps sets: no process can see the difference."""
    seen: Counter[str] = Counter()
    for number in range(60):
        seen += side_by_side("cykas", Cykas, 2 + number % 5, seed + number, draw)
    assert min(seen[what] for what in ("normal", "eager", "ack", "yct")) > 100


@pytest.mark.parametrize(
    ("how", "make"),
    [("acked", CykasYctAcked), ("acked-unack", CykasYctUnack), ("acked-waits", CykasYctWaits)],
)
def test_ycts_are_acknowledged_as_section_2_1_may_mean_it(how: str, make: type[Cykas], seed: int) -> None:
    for number in range(20):
        side_by_side(f"cykas:yct={how}", make, 2 + number % 5, seed + number, to_one_other)


def test_mfss_is_section_2_1(seed: int) -> None:
    for number in range(30):
        side_by_side("mfss", Mfss, 2 + number % 5, seed + number, to_one_other)


def test_causal_matrix_is_figure_12_2(seed: int) -> None:
    """Whole matrices on every message against versions of rows: the same deliveries at every step."""
    n_held = 0
    for number in range(40):
        n = 2 + number % 5
        stage, literal = Stage("causal-matrix", n), [MatrixCausal(me, n) for me in range(n)]
        carried: dict[int, list[list[int]]] = {}
        for step in steps(stage, seed + number, messages=30, draw=to_some_others):
            delivered = [event.message for event in step.events if event.kind == "deliver"]
            if step.packet is None:
                carried[step.events[0].message] = literal[step.process].send(step.to)
                assert delivered == []
                continue
            w = carried[step.packet.message]
            expected = literal[step.process].receive(step.packet.message, w, step.packet.sender)
            assert sorted(delivered) == sorted(expected)
            assert is_fifo(delivered)
            n_held += not delivered
        assert not any(one.pending for one in literal)
    assert n_held > 0


def test_causal_vector_is_the_lecture_notes_algorithm(seed: int) -> None:
    n_held = 0
    for number in range(40):
        n = 2 + number % 5
        stage, literal = Stage("causal-vector", n), [VectorCausal(me, n) for me in range(n)]
        carried: dict[int, list[int]] = {}
        for step in steps(stage, seed + number, messages=30, draw=to_all_others):
            delivered = [event.message for event in step.events if event.kind == "deliver"]
            if step.packet is None:
                carried[step.events[0].message] = literal[step.process].send()
                continue
            clock = carried[step.packet.message]
            expected = literal[step.process].receive(step.packet.message, clock, step.packet.sender)
            assert sorted(delivered) == sorted(expected)
            assert is_fifo(delivered)
            n_held += not delivered
        assert not any(one.delivery_queue for one in literal)
    assert n_held > 0


def is_fifo(messages: list[int]) -> bool:
    """Of every sender, in the order of sending; of different senders any order will do."""
    by_origin: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        by_origin[message >> 32].append(message)
    return all(a < b for numbers in by_origin.values() for a, b in pairwise(numbers))
