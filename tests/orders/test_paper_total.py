# SPDX-License-Identifier: Apache-2.0
"""Garg's section 12.3, the bus1 wiki on message ordering, the blog post on sender-side delivery: every sentence.

The docstring of a test is the sentence that it checks.  What the post weighs is in test_design_considerations.py.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from busq.orders import ORDERS
from busq.stage import Packet, Stage

CAUSAL_TOTAL = ["sequencer", "token", "lamport", "lamport:ack=all", "bus1"]
TOTAL = [*CAUSAL_TOTAL, "skeen"]
SEEDS = range(60)


# ---- playing ----


def arrives(stage: Stage, to: int | str, what: str, label: str = "", sender: int | str | None = None) -> list[str]:
    """Let the oldest packet like this arrive; return the labels of what was delivered."""
    events = stage.receive(stage.find(to, what, label, sender).packet)
    return [stage.label(event.message) for event in events if event.kind == "deliver"]


def in_flight(stage: Stage, what: str) -> list[Packet]:
    return [packet for packet in stage.packets if packet.what == what]


def stamps(stage: Stage, what: str) -> list[int]:
    return [packet.stamp for packet in in_flight(stage, what)]


def deliveries(stage: Stage) -> dict[int, list[int]]:
    """By process: what it has delivered, in its order."""
    found: dict[int, list[int]] = defaultdict(list)
    for event in stage.execution().events:
        if event.kind == "deliver":
            found[event.process].append(event.message)
    return found


def labels(stage: Stage, process: int) -> list[str]:
    return [stage.label(message) for message in deliveries(stage)[process]]


def packets_sent(stage: Stage) -> Counter[str]:
    return Counter(event.what for event in stage.execution().events if event.kind == "send")


def random_run(order: str, seed: int, *, processes: int = 4, messages: int = 12) -> Stage:
    """Sends to random destinations, with random arrivals in between; everything arrives at the end."""
    chance = random.Random(f"{order} {seed}")
    stage = Stage(order, processes)
    for _ in range(messages):
        stage.run_silently(chance.getrandbits(64), limit=chance.randrange(8))
        stage.submit(chance.randrange(processes), to=chance.sample(range(processes), chance.randint(1, processes)))
    stage.run_silently(chance.getrandbits(64))
    assert stage.is_quiet, f"{order}, seed {seed}"
    return stage


def random_runs(order: str) -> Iterator[Stage]:
    for seed in SEEDS:
        print(f"{order}, seed {seed}")
        yield random_run(order, seed)


# ---- Garg 12.3, Total Order for Multicast Messages ----


@pytest.mark.parametrize("order", TOTAL)
def test_there_exists_a_total_order_on_all_messages(order: str) -> None:
    """12.3: "There exists a total order on all messages in the system such that every process receives messages in
    an order that is consistent with the total order."
    """
    for stage in random_runs(order):
        orders = deliveries(stage).values()
        before: dict[int, set[int]] = defaultdict(set)
        for one in orders:
            for earlier, later in itertools.pairwise(one):
                before[later].add(earlier)
        agreed = list(TopologicalSorter(before).static_order())
        place = {message: i for i, message in enumerate(agreed)}
        for one in orders:
            assert len(one) < 2 or one == sorted(one, key=place.__getitem__)


def test_total_order_does_not_imply_fifo_nor_causal_order() -> None:
    """12.3: "Observe that the property of total order of messages does not imply causal or even FIFO property of
    messages."
    """
    verdicts = [stage.judge() for stage in random_runs("skeen")]
    assert all(verdict["total"].ok for verdict in verdicts)
    assert not all(verdict["fifo"].ok for verdict in verdicts)
    assert not all(verdict["causal"].ok for verdict in verdicts)


def test_all_may_receive_the_second_message_first() -> None:
    """12.3: "Consider the case when P sends messages m_1 followed by m_2.  If all processes receive m_2 before m_1,
    then the total order is satisfied even though FIFO is not."
    """
    stage = Stage("skeen", ["p", "q"])
    stage.submit("p", "m1", ["q"])
    stage.submit("p", "m2", ["q"])
    arrives(stage, "q", "data", "m2")
    arrives(stage, "p", "proposal", "m2")
    assert arrives(stage, "q", "final", "m2") == ["m2"]
    stage.run()
    assert labels(stage, 1) == ["m2", "m1"]
    assert stage.judge()["total"].ok
    assert not stage.judge()["fifo"].ok


@pytest.mark.parametrize("order", CAUSAL_TOTAL)
def test_causal_total_order_is_both(order: str) -> None:
    """12.3: "If messages satisfy causal order in addition to the total order, then we will call this ordering of
    messages causal total order."
    """
    promised = ORDERS[order.partition(":")[0]]
    assert promised.promise.startswith("causal total order")
    assert {"causal", "total"} <= promised.claims
    for stage in random_runs(order):
        assert all(verdict.ok for name, verdict in stage.judge().items() if name in promised.claims)


# ---- Garg 12.3.1, Centralized Algorithm ----


def test_channels_to_and_from_the_coordinator_are_fifo() -> None:
    """12.3.1: "We assume that channels between the coordinator process and other processes satisfy the FIFO
    property."
    """
    assert ORDERS["sequencer"].fifo_channels
    stage = Stage("sequencer", 2)
    stage.submit(1, "m1", 0)
    stage.submit(1, "m2", 0)
    with pytest.raises(ValueError, match="keep the order"):
        stage.receive(stage.find(0, label="m2").packet)


def test_who_wants_to_multicast_sends_to_the_coordinator() -> None:
    """12.3.1: "A process that wants to multicast a message simply sends it to the coordinator." """
    stage = Stage("sequencer", 4)
    stage.submit(1, "m1", [2, 3])
    assert [(packet.what, packet.to) for packet in stage.packets] == [("request", 0)]


def test_the_coordinator_multicasts_what_was_requested() -> None:
    """12.3.1: "... the coordinator will simply multicast the message corresponding to the request instead of
    sending the lock."
    """
    stage = Stage("sequencer", 4)
    stage.submit(1, "m1", [0, 2, 3])
    assert arrives(stage, 0, "request") == ["m1"]
    assert [(packet.what, packet.sender, packet.to) for packet in stage.packets] == [("data", 0, 2), ("data", 0, 3)]


def test_the_order_is_that_of_the_coordinator() -> None:
    """12.3.1: "Since all multicast messages originate from the coordinator, and the channels are FIFO, the
    total-order property holds."
    """
    for stage in random_runs("sequencer"):
        events = stage.execution().events
        data = [event for event in events if event.kind == "send" and event.what == "data"]
        assert {event.process for event in data} <= {0}
        for process in range(1, 4):
            assert deliveries(stage)[process] == [event.message for event in data if event.peer == process]
        assert stage.judge()["total"].ok


def test_the_coordinator_has_more_to_do() -> None:
    """12.3.1: "In this centralized algorithm, the coordinator has to perform more work than the other nodes." """
    work: Counter[int] = Counter()
    for stage in random_runs("sequencer"):
        work.update(event.process for event in stage.execution().events if event.kind in ("send", "receive"))
    assert work[0] > 2 * max(work[1], work[2], work[3])


def test_the_token_spreads_the_work() -> None:
    """12.3.1: "One way to perform load balancing over time is by suitably rotating the responsibility of the
    coordinator among processes.  This can be achieved through the use of a token."
    """
    work: Counter[int] = Counter()
    for stage in random_runs("token"):
        work.update(event.process for event in stage.execution().events if event.kind in ("send", "receive"))
    assert max(work.values()) < 1.2 * min(work.values())


def test_the_token_assigns_sequence_numbers() -> None:
    """12.3.1: "The token assigns sequence numbers to broadcasts ..." """
    stage = Stage("token", 3)
    for number, process in enumerate([0, 2, 1, 1, 2, 0], 1):
        stage.submit(process, to=[0, 1, 2])
        while not in_flight(stage, "data"):
            stage.receive(stage.packets[0].packet)
        assert stamps(stage, "data") == [number, number]
        stage.run()


def test_messages_are_delivered_only_in_the_order_of_their_numbers() -> None:
    """12.3.1: "... and messages are delivered only in this sequence order." """
    stage = Stage("token", 2)
    for label in ("m1", "m2", "m3"):
        stage.submit(0, label, 1)
    assert arrives(stage, 1, "data", "m3") == []
    assert arrives(stage, 1, "data", "m2") == []
    assert arrives(stage, 1, "data", "m1") == ["m1", "m2", "m3"]


def test_the_token_falls_silent_and_comes_again() -> None:
    stage = Stage("token", 4)
    for _ in range(3):
        for process in (3, 1):
            stage.submit(process, to=0)
            stage.run(seed=process)  # it ends: nothing is in flight any more
            assert stage.is_quiet


# ---- Garg 12.3.2, Lamport's Algorithm for Total Order ----


def test_lamport_needs_fifo_channels() -> None:
    """12.3.2: "As in that algorithm, we assume FIFO ordering of messages." """
    assert ORDERS["lamport"].fifo_channels
    assert ORDERS["lamport-literal"].fifo_channels


def test_a_message_is_broadcast_to_all() -> None:
    """12.3.2: "We also assume that a message is broadcast to all processes." """
    stage = Stage("lamport", 4)
    stage.submit(1, "m1", 3)
    assert [(packet.what, packet.to) for packet in stage.packets] == [("data", 0), ("data", 2), ("data", 3)]


def test_what_is_not_meant_for_a_process_is_ignored_there() -> None:
    """12.3.2: "To simulate multicast, a process can simply ignore a message that is not meant for it." """
    stage = Stage("lamport", 4)
    stage.submit(1, "m1", 3)
    stage.run()
    assert stage.is_quiet
    assert deliveries(stage).keys() == {3}


def test_there_is_a_clock_and_a_queue() -> None:
    """12.3.2: "Each process maintains a logical clock (used for timestamps) and a queue (used for storing
    undelivered messages)."
    """
    stage = Stage("lamport", 3)
    stage.submit(0, "m1", [1])
    stage.submit(0, "m2", [1])
    assert stamps(stage, "data") == [1, 1, 2, 2]
    arrives(stage, 1, "data", "m1")
    arrives(stage, 1, "data", "m2")
    assert stage.gauge(1)["held"] == 2
    stage.submit(1, "m3", [0])
    assert stage.find(0, "data", "m3").stamp > 2


def test_rule_1_a_timestamped_message_goes_to_all() -> None:
    """12.3.2: "To send a broadcast message, a process sends a timestamped message to all processes including
    itself."
    """
    stage = Stage("lamport", 3)
    stage.submit(0, "m1", [0, 1, 2])
    assert [(packet.what, packet.to, packet.stamp) for packet in stage.packets] == [("data", 1, 1), ("data", 2, 1)]
    assert stage.gauge(0)["waiting"] == 1  # its own copy stands in its queue


def test_rule_2_it_is_queued_and_acknowledged_with_a_timestamp() -> None:
    """12.3.2: "On receiving a broadcast message, the message and its timestamp are stored in the queue, and a
    timestamped acknowledgment is returned."
    """
    stage = Stage("lamport", 3)
    stage.submit(0, "m1", [0, 1, 2])
    assert arrives(stage, 1, "data") == []
    assert stage.gauge(1)["held"] == 1
    ack = stage.find(0, "ack")
    assert (ack.sender, ack.label) == (1, "m1")
    assert ack.stamp > 1


def test_rule_3_all_have_acknowledged() -> None:
    """12.3.2: "A process can mark a message as deliverable if its timestamp is smallest in the request queue and
    the process has received acknowledgments from all other processes."
    """
    stage = Stage("lamport", 3)
    stage.submit(0, "m1", [0, 1, 2])
    arrives(stage, 1, "data")
    assert arrives(stage, 0, "ack", sender=1) == []
    arrives(stage, 2, "data")
    assert arrives(stage, 0, "ack", sender=2) == ["m1"]


def test_rule_3_its_timestamp_is_the_smallest() -> None:
    """12.3.2: "... if its timestamp is smallest in the request queue ..." """
    stage = Stage("lamport", 2)
    stage.submit(0, "m1", [0, 1])
    stage.submit(1, "m2", [0, 1])  # the same timestamp, and a bigger sender
    arrives(stage, 1, "data", "m1")
    arrives(stage, 0, "data", "m2")
    assert arrives(stage, 1, "ack", "m2") == []
    assert in_flight(stage, "release") == []
    assert arrives(stage, 0, "ack", "m1") == ["m1"]
    assert arrives(stage, 1, "release", "m1") == ["m1", "m2"]


def test_rule_4_the_others_are_told() -> None:
    """12.3.2: "Once a process finds a message to be deliverable, it informs all other processes that the message is
    deliverable."
    """
    stage = Stage("lamport", 3)
    stage.submit(0, "m1", [0, 1, 2])
    for process in (1, 2):
        arrives(stage, process, "data")
        arrives(stage, 0, "ack", sender=process)
    assert [(packet.what, packet.to) for packet in stage.packets] == [("release", 1), ("release", 2)]


def play_two_releases(order: str) -> tuple[Stage, list[str]]:
    """Two messages are released, and the release of the second one is faster at process 2; what that delivers."""
    stage = Stage(order, 3)
    stage.submit(0, "m1", [0, 1, 2])
    for process in (1, 2):
        arrives(stage, process, "data")
        arrives(stage, 0, "ack", sender=process)
    assert arrives(stage, 1, "release") == ["m1"]
    stage.submit(1, "m2", [0, 1, 2])
    for process in (0, 2):
        arrives(stage, process, "data", "m2")
        arrives(stage, 1, "ack", "m2", sender=process)
    delivered = arrives(stage, 2, "release", "m2")
    stage.run()
    return stage, delivered


def test_rule_4_to_the_letter_breaks_the_order() -> None:
    """12.3.2: "On receiving this notification, the corresponding message is delivered." """
    stage, delivered = play_two_releases("lamport-literal")
    assert delivered == ["m2"]
    assert labels(stage, 2) == ["m2", "m1"]
    assert labels(stage, 0) == ["m1", "m2"]
    claims = ORDERS["lamport-literal"].claims
    broken = [name for name, verdict in stage.judge(claims).items() if not verdict.ok]
    assert sorted(broken) == ["causal", "consistent", "total"]
    assert ORDERS["lamport-literal"].laboratory


def test_rule_4_with_the_smallest_first_keeps_it() -> None:
    stage, delivered = play_two_releases("lamport")
    assert delivered == []
    assert labels(stage, 2) == ["m1", "m2"]
    assert all(verdict.ok for verdict in stage.judge().values())


@pytest.mark.parametrize("order", ["lamport", "lamport:ack=all"])
def test_the_order_is_that_of_the_logical_clocks_of_the_sends(order: str) -> None:
    """12.3.2: "In this algorithm, the total order of messages delivered is given by the logical clock of send
    events of the broadcast messages."
    """
    for seed in SEEDS:
        print(f"seed {seed}")
        chance = random.Random(seed)
        stage = Stage(order, 3)
        keys: dict[int, tuple[int, int]] = {}
        for _ in range(10):
            stage.run_silently(chance.getrandbits(64), limit=chance.randrange(6))
            stage.submit(chance.randrange(3), to=[0, 1, 2])
            keys |= {packet.message: (packet.stamp, packet.sender) for packet in in_flight(stage, "data")}
        stage.run_silently(chance.getrandbits(64))
        for delivered in deliveries(stage).values():
            assert len(delivered) == 10
            assert delivered == sorted(delivered, key=keys.__getitem__)


@pytest.mark.parametrize("order", ["lamport", "lamport:ack=all"])
def test_lamport_is_causal(order: str) -> None:
    """12.3.2: "Since logical clocks preserve the happened-before order, the algorithm also satisfies the causal
    order."
    """
    for stage in random_runs(order):
        assert stage.judge(["causal"])["causal"].ok


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_lamport_takes_three_packets_for_every_other_process_or_n_with_acknowledgements_to_all(n: int) -> None:
    for order, expected in (("lamport", 3 * (n - 1)), ("lamport:ack=all", n * (n - 1))):
        stage = Stage(order, n)
        stage.submit(0, to=range(n))
        stage.run(seed=n)
        assert packets_sent(stage).total() == expected


# ---- Garg 12.3.3, Skeen's Algorithm ----


def test_lamport_is_wasteful_where_skeen_is_not() -> None:
    """12.3.3: "Lamport's algorithm is wasteful when most messages are multicast and not broadcast." """
    counts = {}
    for order in ("lamport", "skeen"):
        stage = Stage(order, 10)
        stage.submit(0, to=[1, 2])
        stage.run()
        counts[order] = packets_sent(stage).total()
    assert counts == {"lamport": 27, "skeen": 6}


@pytest.mark.parametrize("n", [4, 16])
@pytest.mark.parametrize("recipients", [1, 2, 3])
def test_skeen_takes_packets_in_proportion_to_the_recipients(n: int, recipients: int) -> None:
    """12.3.3: "Skeen's algorithm requires messages proportional to the number of recipients of a message and not
    the total number of processes in the system."
    """
    stage = Stage("skeen", n)
    stage.submit(0, to=range(1, recipients + 1))
    stage.run()
    assert packets_sent(stage).total() == 3 * recipients
    assert {event.process for event in stage.execution().events} == set(range(recipients + 1))


def test_skeen_has_logical_clocks() -> None:
    """12.3.3: "The distributed algorithm of Skeen also assumes that processes have access to Lamport's logical
    clock."
    """
    stage = Stage("skeen", 2)
    stage.submit(0, to=1)
    stage.run()
    stage.submit(1, to=0)
    assert stage.find(0, "data").stamp > 2  # 1 was sent, 2 proposed


def test_skeen_rule_1_a_timestamped_message_goes_to_the_destinations() -> None:
    """12.3.3: "To send a multicast message, a process sends a timestamped message to all the destination
    processes."
    """
    stage = Stage("skeen", 5)
    stage.submit(0, "m1", [2, 4])
    assert [(packet.what, packet.to, packet.stamp) for packet in stage.packets] == [("data", 2, 1), ("data", 4, 1)]


def test_skeen_rule_2_it_is_undeliverable_and_a_timestamp_is_proposed() -> None:
    """12.3.3: "On receiving a message, a process marks it as undeliverable and sends the value of the logical clock
    as the proposed timestamp to the initiator."
    """
    stage = Stage("skeen", 3)
    stage.submit(0, "m1", [1, 2])
    stage.submit(2, "m2", [1])
    assert arrives(stage, 1, "data", "m1") == []
    assert arrives(stage, 1, "data", "m2") == []
    assert stage.gauge(1)["held"] == 2
    first, second = stage.find(0, "proposal"), stage.find(2, "proposal")
    assert (first.label, second.label) == ("m1", "m2")
    assert second.stamp == first.stamp + 1


def test_skeen_rule_3_the_maximum_becomes_the_final_timestamp() -> None:
    """12.3.3: "When the initiator has received all the proposed timestamps, it takes the maximum of all proposals
    and assigns that timestamp as the final timestamp to that message.  This value is sent to all the destinations."
    """
    stage = Stage("skeen", 4)
    for _ in range(3):
        stage.submit(3, to=2)  # the clock of process 2 runs ahead
    stage.run()
    stage.submit(0, "m1", [1, 2])
    arrives(stage, 1, "data", "m1")
    arrives(stage, 2, "data", "m1")
    proposals = stamps(stage, "proposal")
    assert proposals[0] < proposals[1]
    arrives(stage, 0, "proposal", sender=2)
    assert in_flight(stage, "final") == []
    arrives(stage, 0, "proposal", sender=1)
    assert [packet.to for packet in in_flight(stage, "final")] == [1, 2]
    assert stamps(stage, "final") == [max(proposals)] * 2


def test_skeen_rule_4_the_final_timestamp_makes_it_deliverable() -> None:
    """12.3.3: "On receiving the final timestamp of a message, it is marked as deliverable." """
    stage = Stage("skeen", 2)
    stage.submit(0, "m1", 1)
    arrives(stage, 1, "data")
    arrives(stage, 0, "proposal")
    assert arrives(stage, 1, "final") == ["m1"]


def test_skeen_rule_5_the_smallest_is_delivered() -> None:
    """12.3.3: "A deliverable message is delivered to the site if it has the smallest timestamp in the message
    queue."
    """
    stage = Stage("skeen", 3)
    stage.submit(0, "m1", 2)
    stage.submit(1, "m2", 2)
    arrives(stage, 2, "data", "m1")
    arrives(stage, 2, "data", "m2")
    arrives(stage, 1, "proposal", "m2")
    assert arrives(stage, 2, "final", "m2") == []  # m1 stands before it
    arrives(stage, 0, "proposal", "m1")
    assert arrives(stage, 2, "final", "m1") == ["m1", "m2"]


def test_the_order_is_that_of_the_final_timestamps() -> None:
    """12.3.3: "In this algorithm, the total order of message delivery is given by the final timestamps of the
    messages."
    """
    for seed in SEEDS:
        print(f"seed {seed}")
        chance = random.Random(seed)
        stage = Stage("skeen", 4)
        final: dict[int, int] = {}
        n_submitted = 0
        while n_submitted < 10 or stage.packets:
            if n_submitted < 10 and (not stage.packets or chance.random() < 0.2):
                origin = chance.randrange(4)
                stage.submit(origin, to=chance.sample([one for one in range(4) if one != origin], chance.randint(1, 3)))
                n_submitted += 1
            else:
                stage.receive(chance.choice(stage.packets).packet)
            final |= {packet.message: packet.stamp for packet in in_flight(stage, "final")}
        assert len(final) == 10
        for delivered in deliveries(stage).values():
            assert delivered == sorted(delivered, key=lambda message: (final[message], message))


# ---- Garg 12.4.1 ----


@pytest.mark.parametrize("order", CAUSAL_TOTAL)
def test_the_reply_is_never_received_before_the_query(order: str) -> None:
    """12.4.1: "If P_0 sends a query to both P_1 and P_2, and P_1 sends a reply to the query to both P_0 and P_2,
    then P_2 may receive the reply before the query." Not here.
    """
    for seed in SEEDS:
        print(f"seed {seed}")
        stage = Stage(order, 3)
        stage.submit(0, "query", [1, 2])
        while "query" not in labels(stage, 1):
            stage.run_silently(seed, limit=1)
        stage.submit(1, "reply", [0, 2])
        stage.run_silently(seed)
        assert labels(stage, 2) == ["query", "reply"]


# ---- the bus1 wiki, Message ordering ----


def test_bus1_is_consistent() -> None:
    """Consistency: "If two peers multicast one message each, then any two peers receiving both messages must be
    guaranteed to receive them in the same order."
    """
    seen = set()
    for seed in SEEDS:
        print(f"seed {seed}")
        stage = Stage("bus1", 4)
        stage.submit(0, "m1", [2, 3])
        stage.submit(1, "m2", [2, 3])
        stage.run_silently(seed)
        assert labels(stage, 2) == labels(stage, 3)
        seen.add(tuple(labels(stage, 2)))
    assert seen == {("m1", "m2"), ("m2", "m1")}


def test_bus1_is_causal() -> None:
    """Causality: "In other words, it must not be possible to "receive the effect before the cause"." """
    for stage in random_runs("bus1"):
        assert stage.judge(["causal"])["causal"].ok


def late_by_telephone(stage: Stage) -> int:
    """Deliveries after a message that was sent when theirs had been delivered somewhere."""
    first: dict[int, int] = {}
    sent: dict[int, int] = {}
    count = 0
    delivered: dict[int, list[int]] = defaultdict(list)
    for place, event in enumerate(stage.execution().events):
        if event.kind == "sent":
            sent[event.message] = place
        elif event.kind == "deliver":
            first.setdefault(event.message, place)
            count += sum(first[event.message] < sent[before] for before in delivered[event.process])
            delivered[event.process].append(event.message)
    return count


def test_bus1_minds_causes_that_travel_outside_of_it() -> None:
    """Causality: "... an event on one peer may cause a message being sent from another by having the first event
    trigger a signal (outside the control and knowledge of the bus) to be sent to the other peer and hence trigger
    the sending of the message."
    """
    assert sum(late_by_telephone(stage) for stage in random_runs("bus1")) == 0


def test_skeen_does_not_mind_them() -> None:
    stage = Stage("skeen", ["alice", "bob", "carol", "dora", "emil"])
    for _ in range(5):
        stage.submit("emil", to="bob")
    stage.run()  # Bob's clock runs ahead
    stage.submit("alice", "m1", ["bob", "carol"])
    for process in ("bob", "carol"):
        arrives(stage, process, "data")
        arrives(stage, "alice", "proposal", sender=process)
    assert arrives(stage, "bob", "final") == ["m1"]
    stage.submit("dora", "m2", "carol")  # after a call from Bob
    for to, what in (("carol", "data"), ("dora", "proposal"), ("carol", "final")):
        arrives(stage, to, what, "m2")
    assert arrives(stage, "carol", "final", "m1") == ["m2", "m1"]
    assert late_by_telephone(stage) == 1
    assert stage.judge()["total"].ok


def test_bus1_needs_no_global_synchronization() -> None:
    """Locality: "The bus must not rely on any global synchronization." """
    stage = Stage("bus1", 10)
    stage.submit(3, to=[1, 2])
    stage.run()
    assert {event.process for event in stage.execution().events} == {1, 2, 3}


def timestamps(stage: Stage, seed: int = 0) -> dict[str, int]:
    """Run to the end; return by label the timestamp that was chosen."""
    found: dict[str, int] = {}
    chance = random.Random(seed)
    while stage.packets:
        stage.receive(chance.choice(stage.packets).packet)
        found |= {packet.label: packet.stamp for packet in in_flight(stage, "sync")}
    return found


def test_bus1_timestamps_of_a_sender_rise() -> None:
    """Timestamps: "... the resulting timestamps returned by two ticks of the same clock must be different and the
    latter strictly greater than the former."
    """
    stage = Stage("bus1", 3)
    for label in ("m1", "m2", "m3"):
        stage.submit(0, label, [1, 2])
    chosen = timestamps(stage)
    assert chosen["m1"] < chosen["m2"] < chosen["m3"]


def test_bus1_settles_ties_by_the_sender() -> None:
    """Timestamps: "However, we still want to ensure consistency, so to resolve this ambiguity, the per-queue unique
    identifier is used to determine the order of the messages."
    """
    ties = 0
    for seed in SEEDS:
        print(f"seed {seed}")
        stage = Stage("bus1", 4)
        stage.submit(1, "later", [2, 3])
        stage.submit(0, "earlier", [2, 3])
        chosen = timestamps(stage, seed)
        if chosen["later"] == chosen["earlier"]:
            ties += 1
            assert labels(stage, 2) == labels(stage, 3) == ["earlier", "later"]
    assert ties


def test_bus1_timestamps_mean_something_on_one_queue_only() -> None:
    """Timestamps: "In particular, it is perfectly possible that a message received before another is sent has still
    has a greater timestamp, as long as there is no interaction between the two transactions."
    """
    stage = Stage("bus1", 4)
    for label in ("m1", "m2", "m3"):
        stage.submit(0, label, 1)
    before = timestamps(stage)
    stage.submit(2, "m4", 3)
    assert timestamps(stage)["m4"] < before["m3"]


def clock_of(stage: Stage, process: int, asker: int) -> int:
    """What a process answers to a block of the next message."""
    stage.submit(asker, "probe", process)
    stage.receive(stage.find(process, "block", "probe").packet)
    return stage.find(asker, "clock", "probe").stamp


def test_bus1_synchronizing_fast_forwards_a_clock_that_is_behind() -> None:
    """Synchronizing the clocks: "... otherwise the clock is fast-forwarded to match the timestamp." """
    stage = Stage("bus1", 3)
    stage.submit(0, "m1", 1)
    arrives(stage, 1, "block")
    arrives(stage, 0, "clock")
    timestamp = stage.find(1, "sync").stamp
    arrives(stage, 1, "sync")
    assert clock_of(stage, 1, asker=2) == timestamp == 1


def test_bus1_synchronizing_does_nothing_to_a_clock_that_is_ahead() -> None:
    """Synchronizing the clocks: "Synchronizing a clock with a given timestamp is a noop if the clock is ahead of
    the timestamp ..."
    """
    stage = Stage("bus1", 4)
    stage.submit(0, "m1", 1)
    arrives(stage, 1, "block", "m1")
    arrives(stage, 0, "clock", "m1")
    for label in ("m2", "m3"):
        stage.submit(2, label, 1)
        for to, what in ((1, "block"), (2, "clock"), (1, "sync"), (2, "synced")):
            arrives(stage, to, what, label)
    assert stage.find(1, "sync", "m1").stamp == 1
    arrives(stage, 1, "sync", "m1")
    assert clock_of(stage, 1, asker=3) == 2


def test_bus1_what_is_sent_after_a_delivery_has_a_greater_timestamp() -> None:
    """Synchronizing the clocks: "Synchronizing the clocks ensures that any timestamp acquired from a clock for an
    outgoing message is greater than the timestamps of all the incoming messages currently on the queue."
    """
    for seed in SEEDS:
        print(f"seed {seed}")
        stage = Stage("bus1", 3)
        stage.submit(0, "m1", 1)
        before = timestamps(stage, seed)["m1"]
        stage.submit(1, "m2", 2)
        assert timestamps(stage, seed)["m2"] > before


def test_bus1_queues_nothing_before_all_clocks_are_synchronized() -> None:
    """Synchronizing the clocks: "Note that it is crucial to first synchronize all the clocks before starting to
    queue the messages of a given transaction."
    """
    stage = Stage("bus1", 4)
    stage.submit(0, "m1", [1, 2, 3])
    for process in (1, 2, 3):
        arrives(stage, process, "block")
        arrives(stage, 0, "clock", sender=process)
    for process in (1, 2, 3):
        assert in_flight(stage, "queue") == []
        arrives(stage, process, "sync")
        arrives(stage, 0, "synced", sender=process)
    assert [packet.to for packet in in_flight(stage, "queue")] == [1, 2, 3]


def test_bus1_no_message_is_dequeued_behind_a_block() -> None:
    """Blocking the queue: "There may be any number of blocks in place and the effect is that no message can be
    dequeued if it is preceded by a block."
    """
    stage = Stage("bus1", 3)
    stage.submit(0, "m1", 2)
    arrives(stage, 2, "block", "m1")
    stage.submit(1, "m2", 2)
    for to, what in ((2, "block"), (1, "clock"), (2, "sync"), (1, "synced")):
        arrives(stage, to, what, "m2")
    assert arrives(stage, 2, "queue", "m2") == []
    for to, what in ((0, "clock"), (2, "sync"), (0, "synced")):
        assert arrives(stage, to, what, "m1") == []
    assert arrives(stage, 2, "queue", "m1") == ["m1", "m2"]


def test_bus1_takes_the_maximum_of_all_clocks() -> None:
    """Blocking the queue: "Before obtaining the timestamp of a message, we go through all the destination queues
    and block them at their current timestamp and collect the maximum of all these timestamps."
    """
    stage = Stage("bus1", 4)
    for _ in range(5):
        stage.submit(3, to=2)
    timestamps(stage)
    stage.submit(0, "m1", [1, 2])
    arrives(stage, 1, "block")
    arrives(stage, 2, "block")
    assert stamps(stage, "clock") == [0, 5]
    arrives(stage, 0, "clock", sender=2)
    assert in_flight(stage, "sync") == []
    arrives(stage, 0, "clock", sender=1)
    assert stamps(stage, "sync") == [6, 6]


def test_bus1_synchronizes_the_sending_queue_before_the_tick() -> None:
    """Blocking the queue: "The sending queue is then synchronized to the maximum timestamp before being ticked." """
    stage = Stage("bus1", 3)
    for _ in range(5):
        stage.submit(0, to=1)
    timestamps(stage)
    stage.submit(0, "m1", 2)  # whose clock is behind
    assert timestamps(stage) == {"m1": 6}


def test_bus1_removes_the_block_when_the_message_is_queued() -> None:
    """Blocking the queue: "Once a message is queued the corresponding block is removed from the queue." "It
    therefore follows that if the first message on a queue is not blocked, it is ready to be dequeued."
    """
    stage = Stage("bus1", 2)
    stage.submit(0, "m1", 1)
    for to, what in ((1, "block"), (0, "clock"), (1, "sync"), (0, "synced")):
        arrives(stage, to, what)
    assert stage.gauge(1)["held"] == 1  # the block
    assert arrives(stage, 1, "queue") == ["m1"]
    assert stage.gauge(1)["held"] == 0


def test_bus1_takes_five_steps() -> None:
    """Algorithm: "place a block on each of the destination queues, and compute the maximum of their current
    timestamps; synchronize the sending queue to this timestamp; tick the sending queue and assign this timestamp to
    the message being sent; synchronize each of the receiving clocks to the message's timestamp; queue the message
    on each destination queue and remove the corresponding block."
    """
    for seed in SEEDS:
        print(f"seed {seed}")
        stage = Stage("bus1", 4)
        stage.submit(0, "m1", [1, 2, 3])
        stage.run_silently(seed)
        for process in (1, 2, 3):
            steps = [
                event.what
                for event in stage.execution().events
                if event.kind == "receive" and process in (event.process, event.peer)
            ]
            assert steps == ["block", "clock", "sync", "synced", "queue"]
    assert packets_sent(stage).total() == 5 * 3


# ---- the blog post on sender-side causal delivery, and its rendezvous ----


def test_sync_naive_gets_stuck() -> None:
    """The sender-side protocol: "In particular, if two processes concurrently send messages to each other, each can
    get stuck waiting for the other's acknowledgment, as we can see in the following example with Alice and Bob."
    """
    for order, is_stuck in (("sync-naive", True), ("sync", False)):
        stage = Stage(order, ["alice", "bob"])
        stage.submit("alice", "m1", "bob")
        stage.submit("bob", "m2", "alice")
        stage.run()
        assert bool(stage.stuck) == is_stuck


def test_sync_naive_neither_delivers_nor_acknowledges_while_it_waits() -> None:
    """The sender-side protocol: "Alice receives Bob's message after sending her own, but she can't send an
    acknowledgment to Bob because she's waiting for an acknowledgment from him."
    """
    stage = Stage("sync-naive", ["alice", "bob", "carol"])
    stage.submit("alice", "m1", "carol")
    stage.submit("bob", "m2", "alice")
    assert arrives(stage, "alice", "data", "m2") == []
    assert in_flight(stage, "ack") == []
    arrives(stage, "carol", "data", "m1")
    assert arrives(stage, "alice", "ack", "m1") == ["m2"]
    assert stage.find("bob").what == "ack"


def test_synchronous_executions_are_causal() -> None:
    """But isn't this kind of... slow?: "It's well known that synchronous communication is stronger than causal
    communication (that is, synchronous executions are a subset of causal executions) ..."
    """
    for stage in random_runs("sync"):
        verdicts = stage.judge(["synchronous", "causal"])
        assert verdicts["synchronous"].ok
        assert verdicts["causal"].ok
    assert not all(stage.judge(["synchronous"])["synchronous"].ok for stage in random_runs("mfss"))


def test_under_sync_a_send_returns_when_its_receiver_has_delivered() -> None:
    for stage in random_runs("sync"):
        delivered = set()
        for event in stage.execution().events:
            if event.kind == "deliver":
                delivered.add(event.message)
            elif event.kind == "done":
                assert event.message in delivered


@pytest.mark.parametrize(("sender", "receiver", "packets"), [(1, 0, 2), (0, 1, 4)])
def test_sync_takes_two_packets_downwards_and_four_upwards(sender: int, receiver: int, packets: int) -> None:
    stage = Stage("sync", 2)
    stage.submit(sender, to=receiver)
    stage.run()
    assert packets_sent(stage).total() == packets
