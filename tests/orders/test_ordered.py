# SPDX-License-Identifier: Apache-2.0
"""Other orders than bus1 between real processes: the same interface, and what each order claims."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import select
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, fresh_python, shortest, wait_until

import busq
from busq import Unfinished
from busq.ordered import OrderedPeer
from busq.orders import ORDERS
from busq.spec import PROPERTIES, History

LIVE = [name for name, order in ORDERS.items() if not order.laboratory and name != "bus1"]
WITH_OPTIONS = [*LIVE, "lamport:ack=all", "token:delivery=safe"]
WHOLE = ("consistent", "total")  # judged on multicasts; the others on copies

Bus = Callable[..., busq.Bus]
Fork = Callable[..., Child]


@pytest.fixture
def group(make_bus: Bus) -> Iterator[Callable[..., list[Any]]]:
    """group("skeen", 3) joins that many members of a new bus in this process; closes them all at the end."""
    with contextlib.ExitStack() as stack:

        def join(order: str, members: int = 2, **config: Any) -> list[Any]:
            bus = make_bus(order=order, **({"peers": members} | config))
            return [stack.enter_context(bus.join(f"m{number}")) for number in range(members)]

        yield join


# ---- every order keeps what it claims ----


@dataclass
class Account:
    """The report of a member of a run."""

    process: int
    journal: dict[str, array[int]]
    received: list[tuple[str, int, bytes]]
    stats: dict[str, Any]


def make_plan(seed: int, members: int, sends: int) -> list[list[tuple[list[int], bytes]]]:
    """For each member its sends: receivers and data."""
    rng = random.Random(seed)
    return [
        [
            (rng.sample(range(members), rng.randint(1, members)), b"%d/%d" % (member, number) * rng.choice((1, 1, 40)))
            for number in range(sends)
        ]
        for member in range(members)
    ]


def take_part(bus_name: str, me: int, plan: list[list[tuple[list[int], bytes]]], barrier: Any) -> Account:
    with busq.Bus.open(bus_name).join(f"m{me}") as peer:
        peer._journal_start()
        barrier.wait(PATIENCE_S)
        left = sum(me in to for sends in plan for to, _ in sends)
        received = []
        for to, data in plan[me]:
            peer.send([f"m{member}" for member in to], data, timeout=PATIENCE_S)
            with contextlib.suppress(busq.Empty):
                received += peer.recv_many(2, timeout=0)
        while len(received) < left:
            received += peer.recv_many(left - len(received), timeout=PATIENCE_S)
        with pytest.raises(busq.Empty):
            peer.recv(timeout=0)
        stats = peer.order_stats()  # before the first one leaves
        barrier.wait(PATIENCE_S)
        told = [(message.sender, message.message, message.data) for message in received]
        return Account(stats["process"], peer._journal(), told, stats)


def run_plan(fork: Fork, bus: busq.Bus, plan: list[list[tuple[list[int], bytes]]]) -> list[Account]:
    barrier = multiprocessing.get_context("fork").Barrier(len(plan))
    children = [fork(take_part, bus.name, me, plan, barrier) for me in range(len(plan))]
    return sorted((child.result(60) for child in children), key=lambda account: account.process)


def histories(accounts: list[Account]) -> tuple[History, History]:
    """Copies, and whole multicasts, as the order sent and delivered them."""
    copies, whole = History(len(accounts)), History(len(accounts))
    destinations: dict[int, list[int]] = {}
    for account in accounts:
        rows = account.journal
        for is_delivery, process, multicast in zip(rows["deliver"], rows["process"], rows["multicast"], strict=True):
            if not is_delivery:
                destinations.setdefault(multicast, []).append(process)
    for account in accounts:
        rows, sent = account.journal, set()
        to: dict[int, list[int]] = {}
        for is_delivery, message, process in zip(rows["deliver"], rows["message"], rows["process"], strict=True):
            if not is_delivery:
                to.setdefault(message, []).append(process)
        for is_delivery, message, multicast in zip(rows["deliver"], rows["message"], rows["multicast"], strict=True):
            if is_delivery:
                copies.deliver(account.process, message)
                whole.deliver(account.process, multicast)
            else:
                if message in to:
                    copies.send(account.process, message, to.pop(message))
                if multicast not in sent:
                    sent.add(multicast)
                    whole.send(account.process, multicast, destinations[multicast])
    return copies, whole


def broken_claims(order: str, accounts: list[Account]) -> dict[str, str]:
    claims = ORDERS[order.partition(":")[0]].claims
    copies, whole = histories(accounts)
    judged = {
        **copies.judge(claims & set(PROPERTIES) - set(WHOLE)),
        **whole.judge(claims & set(WHOLE)),
    }
    assert {"lost", "duplicated", "phantom"} <= set(judged)
    return {name: verdict.text for name, verdict in judged.items() if not verdict.ok}


@pytest.mark.parametrize("is_shuffled", [False, True], ids=["as-it-comes", "reordered"])
@pytest.mark.parametrize("order", WITH_OPTIONS)
def test_three_processes_see_what_the_order_claims(
    order: str, is_shuffled: bool, make_bus: Bus, fork: Fork, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_shuffled:
        monkeypatch.setenv("BUSQ_SHUFFLE", f"{seed}:1.5")
    plan = make_plan(seed, 3, 25)
    accounts = run_plan(fork, make_bus(order=order, peers=3), plan)
    assert broken_claims(order, accounts) == {}
    everything = sorted(data for sends in plan for to, data in sends for _ in to)
    assert sorted(data for account in accounts for _, _, data in account.received) == everything
    for account in accounts:
        rows = account.journal
        delivered = [name for is_in, name in zip(rows["deliver"], rows["multicast"], strict=True) if is_in]
        assert [message for _, message, _ in account.received] == delivered
        assert account.stats["malformed"] == account.stats["dropped"] == 0


def test_a_sender_that_stands_still_behind_a_gap_loses_nothing_where_packets_are_shuffled(
    make_bus: Bus, fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSQ_SHUFFLE", "3:2")
    bus = make_bus(order="fifo:on_gap=skip", peers=2)
    numbers = range(400)
    with bus.join("b") as b:
        sender = fork(send_and_linger, bus.name, numbers)
        received = [number_of(b.recv(timeout=PATIENCE_S))]
        for at in numbers[1:]:
            if at % 40 == 0:
                os.kill(sender.pid, signal.SIGSTOP)
                time.sleep(0.1)  # five times the patience of that order
                os.kill(sender.pid, signal.SIGCONT)
            received.append(number_of(b.recv(timeout=PATIENCE_S)))
        b.send("a", b"end", timeout=PATIENCE_S)
        sender.result()
    assert received == list(numbers)


def send_and_linger(bus_name: str, numbers: range) -> None:
    with busq.Bus.open(bus_name) as bus, bus.join("a") as a:
        for number in numbers:
            a.send("b", number.to_bytes(4, "little"), timeout=PATIENCE_S)
        assert a.recv(timeout=PATIENCE_S).data == b"end"


def number_of(message: Any) -> int:
    return int.from_bytes(message.data, "little")


def test_a_reordering_network_shows_that_none_promises_nothing(
    make_bus: Bus, fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSQ_SHUFFLE", "5:2")
    accounts = run_plan(fork, make_bus(order="none", peers=3), make_plan(5, 3, 40))
    copies, whole = histories(accounts)
    assert not copies.judge(["fifo"])["fifo"].ok
    assert not copies.judge(["causal"])["causal"].ok
    assert not whole.judge(["total"])["total"].ok


# ---- the interface is that of every peer ----


@pytest.mark.parametrize("order", LIVE)
def test_a_message_goes_to_oneself_and_to_others_once(order: str, group: Any) -> None:
    a, b = group(order)
    a.send("m0", b"alone", timeout=PATIENCE_S)
    a.send(["m1", "m0"], b"both", timeout=PATIENCE_S)
    assert [a.recv(timeout=PATIENCE_S).data for _ in range(2)] == [b"alone", b"both"]
    message = b.recv(timeout=PATIENCE_S)
    assert (message.data, message.sender, message.kind, message.redelivered) == (b"both", "m0", "data", False)
    assert bytes(message.view()) == b"both"
    with pytest.raises(busq.Empty):
        b.recv(timeout=0.01)


def test_a_bus_remembers_its_order(make_bus: Bus) -> None:
    bus = make_bus(order="lamport:ack=all", peers=2)
    assert bus.order == bus.stats()["order"] == busq.Bus.open(bus.name).order == "lamport:ack=all"
    assert pickle.loads(pickle.dumps(bus)).order == "lamport:ack=all"
    assert make_bus().order == make_bus().stats()["order"] == "bus1"
    with bus.join("a") as a:
        assert isinstance(a, OrderedPeer)
        assert (a.name, a.bus) == ("a", bus)
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(a)


@pytest.mark.parametrize("wrong", ["nonsense", "skeen:ack=all", "", "fifo:", "x" * 80])
def test_an_unknown_order_is_refused_by_name(wrong: str, make_bus: Bus) -> None:
    with pytest.raises(ValueError, match="expected"):
        make_bus(order=wrong)


def test_many_go_and_come_in_batches(group: Any) -> None:
    a, b = group("fifo", capacity=64)
    assert a.send_many([("m1", b"%d" % i) for i in range(50)]) == 50
    got: list[Any] = []
    while len(got) < 50:
        batch = b.recv_many(20, timeout=PATIENCE_S)
        assert 1 <= len(batch) <= 20
        got += batch
    assert [message.data for message in got] == [b"%d" % i for i in range(50)]
    assert [message.message & 0xFFFFFFFF for message in got] == list(range(1, 51))


def test_a_large_message_is_seen_in_place_and_outlives_its_peer(group: Any) -> None:
    a, b = group("skeen", arena=4 << 20)
    data = os.urandom(1 << 20)
    a.send(["m0", "m1"], data, timeout=PATIENCE_S)
    message = b.recv(timeout=PATIENCE_S)
    with message.view() as view:
        b.close()
        assert view.readonly
        assert view == data
    assert a.recv(timeout=PATIENCE_S).data == data


def test_what_can_never_fit_is_a_value_error(group: Any) -> None:
    a, _ = group("skeen", arena=1 << 16)
    with pytest.raises(ValueError, match="larger arena"):
        a.send("m1", bytes(1 << 16))


@pytest.mark.parametrize("wrong", [[], ["m1", "m1"]])
def test_receivers_are_given_once_each(wrong: list[str], group: Any) -> None:
    a, _ = group("fifo")
    with pytest.raises(ValueError, match="receiver"):
        a.send(wrong, b"")


def test_what_only_bus1_gives_is_refused(make_bus: Bus) -> None:
    bus = make_bus(order="fifo", peers=2)
    for option in ({"resume": True}, {"durable": True}):
        with pytest.raises(ValueError, match="bus1"):
            bus.join("a", **option)
    with bus.join("a") as a, pytest.raises(ValueError, match="bus1"):
        a.recv(timeout=0, ack=True)


def test_an_unknown_receiver_is_told_apart_from_one_that_has_left(group: Any) -> None:
    a, b = group("fifo", peers=3)
    with pytest.raises(busq.UnknownPeer, match="nobody"):
        a.send("nobody", b"")
    a.send("m1", b"")
    b.close()
    with pytest.raises(busq.PeerDead, match="m1"):
        a.send("m1", b"")


def test_a_place_in_the_group_is_given_once(group: Any) -> None:
    a, b = group("fifo")
    b.close()
    with pytest.raises(busq.NoSpace, match="given once"):
        a.bus.join("another")


@pytest.mark.parametrize("order", ["fifo", "skeen"])
def test_who_joins_again_under_its_name_is_reached_by_those_who_knew_it_before(order: str, group: Any) -> None:
    a, b = group(order, peers=5)
    for number in range(3):
        a.send("m1", b"%d" % number, timeout=PATIENCE_S)
        assert b.recv(timeout=PATIENCE_S).data == b"%d" % number
        b.close()
        with pytest.raises(busq.PeerDead, match="m1"):
            a.send("m1", b"to nobody", timeout=PATIENCE_S)
        b = a.bus.join("m1")
    a.send(iter(["m0", "m1"]), b"again", timeout=PATIENCE_S)
    assert b.recv(timeout=PATIENCE_S).data == b"again"
    b.close()


@pytest.mark.parametrize("order", [name for name in LIVE if ORDERS[name].whole_group])
def test_an_order_of_the_whole_group_says_who_is_missing(order: str, make_bus: Bus) -> None:
    bus = make_bus(order=order, peers=3)
    with bus.join("a") as a, bus.join("b"):
        with pytest.raises(busq.UnknownPeer, match="2 of 3 members"):
            a.send("b", b"", timeout=0.02)
        with bus.join("c"):
            a.send("b", b"", timeout=PATIENCE_S)


# ---- back-pressure ----


@pytest.mark.parametrize("order", LIVE)
def test_a_receiver_that_takes_nothing_makes_its_senders_wait(order: str, group: Any) -> None:
    a, b = group(order, capacity=4)
    for number in range(4):
        a.send("m1", b"%d" % number, timeout=PATIENCE_S)
    for timeout in (0, 0.02):
        with pytest.raises(busq.Full):
            a.send("m1", b"4", timeout=timeout)
    late = threading.Timer(0.05, b.recv)
    late.start()
    a.send("m1", b"4", timeout=PATIENCE_S)
    late.join()
    assert b.recv(timeout=PATIENCE_S).data == b"1"


@pytest.mark.parametrize("order", WITH_OPTIONS)
def test_a_receiver_that_takes_nothing_does_not_keep_messages_from_others(order: str, group: Any) -> None:
    a, b, c = group(order, 3, capacity=1)
    a.send("m1", b"1", timeout=PATIENCE_S)
    for number in range(5):
        a.send("m2", b"%d" % number, timeout=PATIENCE_S)
        assert c.recv(timeout=PATIENCE_S).data == b"%d" % number
    with pytest.raises(busq.Full):
        a.send("m1", b"2", timeout=0.02)
    assert b.recv(timeout=PATIENCE_S).data == b"1"


def test_bytes_are_bounded_as_well(group: Any) -> None:
    a, b = group("fifo", arena=1 << 20)
    with pytest.raises(busq.Full) as caught:
        a.send_many([("m1", bytes(200_000))] * 10, timeout=0.05)
    assert 0 < caught.value.sent < 5
    assert len(b.recv(timeout=PATIENCE_S).data) == 200_000
    b.recv(timeout=PATIENCE_S)
    a.send("m1", bytes(200_000), timeout=PATIENCE_S)


@pytest.mark.parametrize("order", ["none", "fifo", "cykas", "skeen", "lamport"])
def test_two_who_send_and_then_receive_do_not_get_stuck(order: str, group: Any) -> None:
    a, b = group(order, capacity=2)

    def chat(me: Any, other: str) -> list[bytes]:
        got: list[bytes] = []
        for number in range(60):
            while True:
                try:
                    me.send([other], b"%d" % number, timeout=0.01)
                    break
                except busq.Full:
                    with contextlib.suppress(busq.Empty):
                        got += [message.data for message in me.recv_many(9, timeout=0)]
        while len(got) < 60:
            got.append(me.recv(timeout=PATIENCE_S).data)
        return got

    results: list[list[bytes]] = []
    both = ((a, "m1"), (b, "m0"))
    threads = [threading.Thread(target=lambda me=me, to=to: results.append(chat(me, to))) for me, to in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [b"%d" % number for number in range(60)]
    assert [sorted(one) for one in results] == [sorted(expected)] * 2


@pytest.mark.parametrize("order", [name for name in WITH_OPTIONS if ORDERS[name.partition(":")[0]].whole_group])
def test_one_slow_channel_does_not_fill_whoever_holds_what_is_for_others(order: str, group: Any) -> None:
    peers = group(order, 4, capacity=2)
    peers[1]._delay("m3", 0.05)
    both = ((peers[0], "m1"), (peers[1], "m0"))
    ends = [threading.Thread(target=me.send_many, args=([(to, b"x")] * 15,)) for me, to in both]
    for thread in ends:
        thread.start()
    for me, _ in both:
        assert [me.recv(timeout=PATIENCE_S).data for _ in range(15)] == [b"x"] * 15
    for thread in ends:
        thread.join()
    wait_until(lambda: all(peer.order_stats()["held_max"] <= 4 * 2 for peer in peers))
    assert [peer.order_stats()["refused"] for peer in peers] == [0] * 4


def test_what_is_held_for_others_is_bounded_in_bytes_as_well(group: Any) -> None:
    a, b, _ = group("causal-vector", 3, arena=1 << 20)
    a._delay("m2", 1)
    a.send("m1", b"cause", timeout=PATIENCE_S)
    assert b.recv(timeout=PATIENCE_S).data == b"cause"

    def send_effects() -> None:
        for _ in range(10):  # m2 holds them, until the cause has come
            b.send("m0", bytes(100_000), timeout=0.1)
            a.recv(timeout=PATIENCE_S)

    with pytest.raises(busq.Full):
        send_effects()
    b.send("m0", bytes(100_000), timeout=PATIENCE_S)


# ---- what a protocol costs, and that it goes on by itself ----


def test_packets_are_answered_while_the_application_computes(group: Any) -> None:
    a, _, c = group("skeen", 3)  # m1 never asks for anything
    for number in range(20):
        a.send(["m1", "m2"], b"%d" % number, timeout=PATIENCE_S)
    assert [c.recv(timeout=PATIENCE_S).data for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_skeen_sends_three_packets_per_destination_and_lamport_as_many_per_member(group: Any) -> None:
    for order, members, per_message in (
        ("skeen", ["m1", "m2"], 3 * 2),
        ("lamport", ["m1"], 3 * 3),
        ("lamport:ack=all", ["m1"], 4 * 3),
    ):
        peers = group(order, 4)
        for _ in range(10):
            peers[0].send(members, b"", timeout=PATIENCE_S)
            for name in members:
                peers[int(name[1])].recv(timeout=PATIENCE_S)

        def packets(peers: list[Any] = peers) -> int:
            return sum(sum(peer.order_stats()["packets_sent"].values()) for peer in peers)

        wait_until(lambda want=per_message, count=packets: count() == 10 * want, what=f"{order}: all packets")


def test_a_rendezvous_ends_when_the_receiver_has_delivered(group: Any) -> None:
    a, b = group("sync")
    a.send("m1", b"", timeout=PATIENCE_S)
    assert b.order_stats()["delivered"] == 1
    a._delay("m1", 0.2)
    with pytest.raises(Unfinished, match="in flight"):
        a.send("m1", b"late", timeout=0.02)
    assert [b.recv(timeout=PATIENCE_S).data for _ in range(2)] == [b"", b"late"]
    with pytest.raises(Unfinished) as caught:
        a.send_many([("m1", b"also late"), ("m1", b"never")], timeout=0.02)
    assert caught.value.sent == 1, "it is in flight, and whoever goes on with the rest must not send it again"
    assert b.recv(timeout=PATIENCE_S).data == b"also late"


def test_what_stops_send_many_says_how_many_were_sent(group: Any) -> None:
    a, b = group("fifo")
    for before in range(3):
        for bad, error in (("nobody", busq.UnknownPeer), (5, TypeError), ([], ValueError)):
            with pytest.raises(error) as caught:
                a.send_many([("m1", b"good")] * before + [(bad, b"bad"), ("m1", b"never")], timeout=5)
            assert caught.value.sent == before
            assert [b.recv(timeout=PATIENCE_S).data for _ in range(before)] == [b"good"] * before
    with pytest.raises(busq.Empty):
        b.recv(timeout=0)


def test_secret_mode_is_timed(group: Any) -> None:
    alice, bob, carol = group("cykas", 3)
    alice._delay("m2", 0.05)
    alice.send("m2", b"slow", timeout=PATIENCE_S)
    alice.send("m1", b"eager", timeout=PATIENCE_S)
    assert bob.recv(timeout=PATIENCE_S).data == b"eager"
    assert carol.recv(timeout=PATIENCE_S).data == b"slow"
    bob.send("m0", b"", timeout=PATIENCE_S)
    alice.recv(timeout=PATIENCE_S)
    assert bob.order_stats()["secret_s"] > 0.02


# ---- waiting, signals, threads, descriptors ----


@pytest.mark.parametrize("what", ["recv", "send", "assemble"])
def test_control_c_is_answered_within_a_tenth_of_a_second(what: str, make_bus: Bus, fork: Fork) -> None:
    def wait(name: str) -> float:
        begun: list[float] = []
        with busq.Bus.open(name).join("a") as a, busq.Bus.open(name).join("b"):
            strike = threading.Timer(0.1, lambda: (begun.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
            try:
                strike.start()
                while True:
                    a.recv() if what == "recv" else a.send("b", b"")
            except KeyboardInterrupt:
                return time.monotonic() - begun[0]

    def waited() -> float:  # on a bus of its own: each of these slots is given once
        bus = make_bus(order="lamport" if what == "assemble" else "fifo", peers=3, capacity=1)
        return fork(wait, bus.name).result()

    assert shortest(waited, 0.1) < 0.1


def test_the_descriptor_is_readable_while_something_can_be_received(group: Any) -> None:
    a, b = group("skeen")
    fd = b.fileno()
    assert select.select([fd], [], [], 0)[0] == []
    a.send("m1", b"1", timeout=PATIENCE_S)
    a.send("m1", b"2", timeout=PATIENCE_S)
    for number in (b"1", b"2"):
        assert select.select([fd], [], [], 5)[0] == [fd]
        assert b.recv(timeout=PATIENCE_S).data == number
    assert select.select([fd], [], [], 0)[0] == []
    b.bus.shutdown()
    assert select.select([fd], [], [], 5)[0] == [fd]
    with pytest.raises(busq.ShutDown):
        b.recv(timeout=0)


def test_many_threads_send_and_receive_on_one_peer(group: Any) -> None:
    a, b = group("skeen", capacity=64)
    got: list[bytes] = []

    def receive() -> None:
        with contextlib.suppress(busq.ShutDown):
            while True:
                got.append(b.recv().data)

    receivers = [threading.Thread(target=receive) for _ in range(3)]
    senders = [
        threading.Thread(target=lambda t=t: [a.send(["m0", "m1"], b"%d/%d" % (t, i)) for i in range(60)])
        for t in range(3)
    ]
    for thread in receivers + senders:
        thread.start()
    mine = [a.recv(timeout=PATIENCE_S).data for _ in range(180)]
    for thread in senders:
        thread.join()
    wait_until(lambda: len(got) == 180, what="everything received")
    a.bus.shutdown()
    for thread in receivers:
        thread.join()
    assert sorted(got) == sorted(mine) == sorted(b"%d/%d" % (t, i) for t in range(3) for i in range(60))


def test_a_thread_that_waits_gets_at_once_what_another_one_sends_to_its_own_peer(group: Any) -> None:
    (a,) = group("fifo", 1)
    found: list[float] = []

    def receive() -> None:
        for _ in range(20):
            a.recv()
            found.append(time.monotonic())

    thread = threading.Thread(target=receive)
    thread.start()
    sent = []
    for _ in range(20):
        time.sleep(0.005)  # it sleeps by now
        sent.append(time.monotonic())
        a.send("m0", b"")
    thread.join()
    late = sorted(after - before for before, after in zip(sent, found, strict=True))
    assert late[0] < 0.02  # a slice of sleep is 50 ms; some of them a busy machine may hold up


def test_who_polls_does_not_take_away_what_wakes_the_progress_thread(group: Any) -> None:
    a, b = group("fifo")
    a._delay("m1", 0.005)
    late = []
    for _ in range(11):
        time.sleep(0.005)  # it sleeps by now
        began = time.monotonic()
        a.send("m1", b"")
        with pytest.raises(busq.Empty):
            a.recv(timeout=0)
        b.recv(timeout=PATIENCE_S)
        late.append(time.monotonic() - began)
    assert min(late) < 0.03  # a slice of sleep is 50 ms; some of them a busy machine may hold up


# ---- ends ----


def test_shutdown_ends_receiving_after_the_last_message_and_sending_at_once(group: Any) -> None:
    a, b = group("fifo")
    a.send_many([("m1", b"1"), ("m1", b"2")])
    a.bus.shutdown()
    with pytest.raises(busq.ShutDown):
        a.send("m1", b"3")
    assert [message.data for message in b] == [b"1", b"2"]
    with pytest.raises(busq.ShutDown):
        a.bus.join("late")


def test_shutdown_wakes_whoever_waits(group: Any) -> None:
    a, b = group("fifo", capacity=1)
    a.send("m1", b"")
    found: list[type] = []

    def wait(call: Callable[[], Any]) -> None:
        try:
            call()
        except busq.ShutDown as error:
            found.append(type(error))

    calls = [lambda: a.send("m1", b""), a.recv, a.recv]
    threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    b.bus.shutdown()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [busq.ShutDown] * 3


@pytest.mark.parametrize("order", [name for name in LIVE if not ORDERS[name].rendezvous])
def test_what_was_sent_before_closing_arrives(order: str, make_bus: Bus) -> None:
    bus = make_bus(order=order, peers=2)
    with bus.join("a") as a, bus.join("b") as b:
        a.send("b", b"hello", timeout=PATIENCE_S)
        b.recv(timeout=PATIENCE_S)
        a._delay("b", 0.02)
        for number in range(5):
            a.send("b", b"%d" % number, timeout=PATIENCE_S)
        a.close()
        a.close()
        with pytest.raises(busq.ShutDown):
            a.send("b", b"")
        with pytest.raises(busq.ShutDown):
            a.recv()
        assert sorted(b.recv(timeout=PATIENCE_S).data for _ in range(5)) == [b"%d" % number for number in range(5)]


def test_closing_wakes_the_threads_that_wait_on_it(group: Any) -> None:
    a, _ = group("fifo")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(list(a))) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    a.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [[], []]


def join_and_wait(bus_name: str, name: str) -> None:
    with busq.Bus.open(bus_name).join(name) as peer:
        peer.recv()
        time.sleep(60)


def stop(pid: int) -> None:
    """Returns when every thread of the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    wait_until(
        lambda: all(task.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())
    )


@pytest.mark.parametrize("order", ["fifo", "skeen", "cykas", "lamport", "sequencer"])
def test_a_killed_receiver_is_noticed_by_the_next_send(order: str, make_bus: Bus, fork: Fork) -> None:
    bus = make_bus(order=order, peers=2)
    with bus.join("a") as a:
        child = fork(join_and_wait, bus.name, "b")
        wait_until(lambda: "b" in bus.peers())
        a.send(["a", "b"], b"1", timeout=PATIENCE_S)
        assert a.recv(timeout=PATIENCE_S).data == b"1"
        child.kill()
        with pytest.raises(busq.PeerDead, match='"b"'):
            a.send("b", b"2", timeout=PATIENCE_S)


@pytest.mark.parametrize("order", ["skeen", "lamport", "mfss"])
def test_who_waits_for_a_killed_member_gets_what_there_is_and_then_its_name(
    order: str, make_bus: Bus, fork: Fork
) -> None:
    bus = make_bus(order=order, peers=3)
    with bus.join("a") as a, bus.join("c") as c:
        child = fork(join_and_wait, bus.name, "b")
        wait_until(lambda: "b" in bus.peers())
        a.send("c", b"before", timeout=PATIENCE_S)
        wait_until(lambda: c.order_stats()["delivered"] == 1)
        stop(child.pid)
        a.send("b" if order == "mfss" else ["b", "c"], b"never", timeout=PATIENCE_S)
        child.kill()
        assert c.recv(timeout=PATIENCE_S).data == b"before"
        with pytest.raises(busq.PeerDead, match='"b"'):
            (a if order == "mfss" else c).recv(timeout=PATIENCE_S)


@pytest.mark.parametrize("order", ["fifo-ack", "mfss", "cykas", "skeen", "sync"])
def test_who_is_only_stopped_is_waited_for_though_another_one_has_left(order: str, make_bus: Bus, fork: Fork) -> None:
    bus = make_bus(order=order, peers=3)
    with bus.join("a") as a:
        child = fork(join_and_wait, bus.name, "b")
        wait_until(lambda: "b" in bus.peers())
        with bus.join("c") as c:
            a.send("c", b"before", timeout=PATIENCE_S)
            assert c.recv(timeout=PATIENCE_S).data == b"before"
        stop(child.pid)
        try:
            with contextlib.suppress(busq.Full):
                a.send("b", b"first", timeout=0.1)
            with pytest.raises(busq.Empty):
                a.recv(timeout=0.6)
        finally:
            os.kill(child.pid, signal.SIGCONT)
        a.send("b", b"second", timeout=PATIENCE_S)
        child.kill()


@pytest.mark.parametrize("order", ["fifo-ack", "mfss", "skeen", "sync"])
def test_an_answer_that_takes_long_is_waited_for_though_another_one_has_left(order: str, group: Any) -> None:
    a, b, c = group(order, 3)
    a.send("m2", b"before", timeout=PATIENCE_S)
    c.recv(timeout=PATIENCE_S)
    c.close()
    b._delay("m0", 0.5)
    a.send("m1", b"first", timeout=PATIENCE_S)
    with pytest.raises(busq.Empty):
        a.recv(timeout=0.6)
    assert b.recv(timeout=PATIENCE_S).data == b"first"


def send_a_cause_too_late(bus_name: str) -> None:
    with busq.Bus.open(bus_name).join("b") as peer:
        peer._delay("a", 60)
        peer.send("a", b"cause", timeout=PATIENCE_S)
        peer.send("c", b"effect", timeout=PATIENCE_S)
        time.sleep(60)


def test_a_message_whose_cause_died_with_its_sender_is_not_waited_for_for_ever(make_bus: Bus, fork: Fork) -> None:
    bus = make_bus(order="causal-matrix", peers=3)
    with bus.join("a") as a, bus.join("c") as c:
        child = fork(send_a_cause_too_late, bus.name)
        assert c.recv(timeout=PATIENCE_S).data == b"effect"
        c.send("a", b"effect of the effect", timeout=PATIENCE_S)
        wait_until(lambda: a.order_stats()["held_max"] == 1)
        a.send("b", b"hello", timeout=PATIENCE_S)  # a has heard of it
        child.kill()
        with pytest.raises(busq.PeerDead, match='"b"'):
            a.recv(timeout=PATIENCE_S)


def test_what_the_dead_do_not_take_part_in_goes_on(make_bus: Bus, fork: Fork) -> None:
    bus = make_bus(order="skeen", peers=3)
    with bus.join("a") as a, bus.join("c") as c:
        child = fork(join_and_wait, bus.name, "b")
        wait_until(lambda: "b" in bus.peers())
        stop(child.pid)
        a.send("b", b"never", timeout=PATIENCE_S)
        child.kill()
        with pytest.raises(busq.PeerDead, match='"b"'):
            a.recv(timeout=PATIENCE_S)
        with pytest.raises(busq.Empty):
            a.recv(timeout=0.3)
        c.send("a", b"still here", timeout=PATIENCE_S)
        assert a.recv(timeout=PATIENCE_S).data == b"still here"


def test_a_process_that_ends_without_closing_lets_its_messages_go(make_bus: Bus) -> None:
    bus = make_bus(order="mfss", peers=2)
    with bus.join("b") as b:
        done = fresh_python(
            f"import busq; a = busq.Bus.open({bus.name!r}).join('a')\n"
            "for number in range(20): a.send('b', b'%d' % number)"
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert [b.recv(timeout=PATIENCE_S).data for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_daemon_threads_that_wait_are_silent_when_their_process_ends(make_bus: Bus) -> None:
    bus = make_bus(order="fifo", peers=1)
    done = fresh_python(
        f"import busq, threading, time; a = busq.Bus.open({bus.name!r}).join('a')\n"
        "threading.Thread(target=a.recv, daemon=True).start(); time.sleep(0.1)"
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- fork ----


def test_a_forked_child_has_no_part_in_its_parents_peer(group: Any, fork: Fork) -> None:
    a, b = group("skeen")
    a.send("m1", b"1", timeout=PATIENCE_S)

    def try_everything() -> list[str]:
        found = []
        for call in (lambda: a.send("m1", b""), a.recv, a.fileno, a.order_stats, a._journal_start):
            try:
                call()
            except busq.ForkedHandle as error:
                found.append(type(error).__name__)
        a.close()
        return found

    assert fork(try_everything).result(10) == ["ForkedHandle"] * 5
    a.send("m1", b"2", timeout=PATIENCE_S)
    assert [b.recv(timeout=PATIENCE_S).data for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize("wrong", ["x", "1:y", "-1:2", "1:-2"])
def test_a_wrong_wish_to_reorder_is_refused(wrong: str, make_bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSQ_SHUFFLE", wrong)
    with pytest.raises(ValueError, match="BUSQ_SHUFFLE"):
        make_bus(order="fifo", peers=1).join("a")
