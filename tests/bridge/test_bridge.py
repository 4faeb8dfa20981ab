# SPDX-License-Identifier: Apache-2.0
"""Groups of several machines: two buses of one host, a real nats-server between them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable

import pytest
from bridging import WAIT_S, Machine, data_of, machine, run_busq, server, stop, wait_until  # noqa: F401  (fixtures)
from conftest import Child

import busq
from busq.bench.nats_servers import NatsServer

Make = Callable[..., Machine]
Fork = Callable[..., Child]


def test_members_of_two_machines_receive_in_one_order(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        alice.enter("prices")
        bob.enter("prices")
        alice.send("@prices", b"from here", timeout=WAIT_S)
        bob.send("@prices", [b"from", b" there"], timeout=WAIT_S)
        alice.send_many([("@prices", b"%d" % n) for n in range(600)], timeout=WAIT_S)
        received, elsewhere = data_of(alice, 602), data_of(bob, 602)
    assert received == elsewhere
    assert [data for _, data, _ in received] == [b"from here", b"from there", *(b"%d" % n for n in range(600))]
    assert [sender for sender, _, _ in received[:3]] == ["m1/alice", "m2/bob", "m1/alice"]
    places = [place for _, _, place in received]
    assert places == sorted(set(places))


def test_a_message_comes_to_a_group_without_members_here_and_to_a_sender_that_is_none(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("carl") as carl, there.bus.join("bob") as bob:
        bob.enter("prices")
        carl.send("@prices", bytearray(b"x" * 100_000), timeout=WAIT_S)
        carl.sync("@prices", timeout=WAIT_S)
        ((sender, data, _),) = data_of(bob, 1)
        assert (sender, len(data)) == ("m1/carl", 100_000)
        with pytest.raises(busq.Empty):
            carl.recv(timeout=0)


def test_what_another_machine_has_sent_lies_before_a_sync(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        alice.enter("prices")
        for n in range(5):
            bob.send("@prices", b"%d" % n, timeout=WAIT_S)
            alice.sync("@prices", timeout=WAIT_S)
            assert [message.data for message in alice.recv_many(9, timeout=0) if message.kind == "data"] == [b"%d" % n]


def test_what_can_not_be_sent_is_refused_with_a_sentence(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice, here.bus.join("bob") as bob:
        node = bob.node()
        refused = {
            "stand beside it": lambda: alice.send(["@prices", "bob"], b""),
            "handles mean nothing": lambda: bob.send("@prices", b"", handles=[node.handle]),
            "at most": lambda: alice.send("@prices", bytes(300_000)),
            "can't be waited for": lambda: alice.sync("prices"),
            r"Replica\.join\(bus, '@prices'\)": lambda: alice.enter("prices", state=lambda: b""),
        }
        for text, call in refused.items():
            with pytest.raises(ValueError, match=text):
                call()
        with pytest.raises(TypeError, match="data"):
            alice.send("@prices", "text")  # type: ignore[arg-type]
        for unknown in (lambda: alice.send("@other", b""), lambda: alice.sync("@other")):
            with pytest.raises(busq.UnknownPeer):
                unknown()


def test_a_mix_of_many_is_sent_in_order_and_stops_where_one_can_not_be(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        alice.recv(timeout=WAIT_S)
        mixed = [("@prices", b"1"), ("alice", b"2"), (["@prices"], b"3"), ("@prices", b"4"), ("alice", b"5")]
        assert alice.send_many(mixed, timeout=WAIT_S) == 5
        assert alice.send_many(iter(mixed[1:]), timeout=WAIT_S) == 4
        assert [data for _, data, _ in data_of(alice, 9)] == [b"1", b"2", b"3", b"4", b"5", b"2", b"3", b"4", b"5"]
        with pytest.raises(busq.UnknownPeer) as failed:
            alice.send_many([("@prices", b"1"), ("@prices", b"2"), ("nobody", b"3"), ("@prices", b"4")])
        assert failed.value.sent == 2


def test_without_a_bridge_a_send_ends_at_once(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.send("@prices", b"", timeout=WAIT_S)
        here.end()
        with pytest.raises(busq.PeerDead, match="no bridge runs") as failed:
            alice.send("@prices", b"")
        assert failed.value.sent == 0
        here.begin()
        alice.send("@prices", b"", timeout=WAIT_S)


def test_what_is_not_published_before_the_timeout_is_withdrawn(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        bob.enter("prices")
        alice.send("@prices", b"first", timeout=WAIT_S)
        stop(here.server.process.pid)
        try:
            with pytest.raises(busq.Unreachable) as first:
                alice.send("@prices", b"under way", timeout=0.2)
            with pytest.raises(busq.Unreachable) as second:
                alice.send("@prices", b"withdrawn", timeout=0.2)
            with pytest.raises(busq.Unreachable) as many:
                alice.send_many([("@prices", b"withdrawn"), ("@prices", b"withdrawn")], timeout=0.2)
        finally:
            here.server.process.send_signal(signal.SIGCONT)
        assert (first.value.sent, second.value.sent, many.value.sent) == (None, 0, 0)
        alice.send("@prices", b"last", timeout=WAIT_S)
        assert [data for _, data, _ in data_of(bob, 3)] == [b"first", b"under way", b"last"]


@pytest.mark.long
def test_a_full_stream_is_named_and_its_message_withdrawn(machine: Make, server: NatsServer) -> None:  # noqa: F811
    assert run_busq("bridge", "init", "small", "--max-bytes", str(1 << 20), "--server", server.url).returncode == 0
    here = machine("m1", begins=False)
    here.domain, here.options = "small", ["--lease", "3600"]  # no tick makes room
    here.begin()
    with here.bus.join("alice") as alice:
        for _ in range(3):
            alice.send("@prices", bytes(200_000), timeout=WAIT_S)
        with pytest.raises(busq.Full, match="the stream of domain 'small'") as full:
            alice.send_many([("@prices", bytes(200_000))] * 2, timeout=2)
        assert full.value.sent == 1


@pytest.mark.long
def test_what_every_machine_has_resent_is_taken_from_the_stream(machine: Make, server: NatsServer) -> None:  # noqa: F811
    assert run_busq("bridge", "init", "small", "--max-bytes", str(1 << 20), "--server", server.url).returncode == 0
    here, there = machine("m1", begins=False), machine("m2", begins=False)
    for one in (here, there):
        one.domain, one.options = "small", ["--lease", "6"]
        one.begin()
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        bob.enter("prices")
        for n in range(12):  # more than twice what it holds
            alice.send("@prices", b"%06d" % n + bytes(200_000), timeout=WAIT_S)
        assert [data[:6] for _, data, _ in data_of(bob, 12)] == [b"%06d" % n for n in range(12)]


@pytest.mark.long
def test_a_machine_that_is_dropped_and_has_missed_nothing_comes_back(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        bob.enter("prices")
        alice.send("@prices", b"before", timeout=WAIT_S)
        there.end()
        assert run_busq("bridge", "drop", "d", "m2", "--server", here.server.url).returncode == 0
        there.begin()
        bob.enter("prices", timeout=WAIT_S)  # it was put out with its machine
        alice.send("@prices", b"after", timeout=WAIT_S)
        assert [data for _, data, _ in data_of(bob, 2)] == [b"before", b"after"]


@pytest.mark.long
def test_a_machine_that_is_silent_is_put_out(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1", begins=False), machine("m2", begins=False)
    for one in (here, there):
        one.options = ["--lease", "6"]
        one.begin()
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        bob.enter("prices")
        alice.send("@prices", b"before", timeout=WAIT_S)
        assert there.process
        stop(there.process.pid)
        url = here.server.url

        def is_out() -> bool:
            listed = json.loads(run_busq("bridge", "ls", "d", "--json", "--server", url).stdout)
            return all(one["is_out"] for one in listed["machines"] if one["machine"] == "m2")

        wait_until("it is out", is_out)
        there.process.send_signal(signal.SIGCONT)
        there.process.wait(WAIT_S)
        code, written = there.end()
        assert "was put out" in written or "is not in the stream any more" in written
        assert code in (7, 8)  # whichever it finds first: the marker, or that what comes next was taken away


@pytest.mark.long
def test_a_second_machine_of_one_name_is_refused_or_takes_over(machine: Make) -> None:  # noqa: F811
    first = machine("m1", begins=False)
    first.options = ["--lease", "1"]
    first.begin()
    second = machine("other", begins=False)
    second.name, second.options = "m1", ["--lease", "6"]
    code, written = ends_by_itself(second)
    assert code == 7
    assert "another bus is machine 'm1'" in written
    second.options += ["--replace"]
    second.begin()
    with second.bus.join("alice") as alice:
        alice.send("@prices", b"", timeout=WAIT_S)
    assert first.process
    first.process.wait(WAIT_S)
    assert first.end()[0] == 7


@pytest.mark.long
def test_a_machine_behind_what_was_taken_away_ends_with_8(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice:
        alice.send("@prices", b"", timeout=WAIT_S)
        there.end()
        assert run_busq("bridge", "drop", "d", "m2", "--server", here.server.url).returncode == 0
        here.end()
        here.options = ["--lease", "1"]  # a tick that takes away what is not needed comes soon
        here.begin()
        for _ in range(3):
            alice.send("@prices", b"missed", timeout=WAIT_S)
        wait_until("room is made", lambda: first_place(here) > 3)
        code, written = ends_by_itself(there)
        assert code == 8
        assert "is not in the stream any more" in written


def ends_by_itself(machine: Machine) -> tuple[int, str]:  # noqa: F811
    """Begin a bridge that is refused; its exit code, and what it wrote."""
    machine.begin(waits=False)
    assert machine.process
    machine.process.wait(WAIT_S)
    return machine.end()


def comes_back_empty(server: NatsServer) -> None:  # noqa: F811
    """Start a server anew whose storage is memory, with a stream of the same name."""
    server.end()
    server.start()
    init = run_busq("bridge", "init", "d", "--storage", "memory", "--server", server.url)
    assert init.returncode == 0, init.stderr


def first_place(machine: Machine) -> int:  # noqa: F811
    listed = run_busq("bridge", "ls", machine.domain, "--json", "--server", machine.server.url)
    return int(json.loads(listed.stdout)["first_place"])


@pytest.mark.long
@pytest.mark.parametrize("is_alive", [True, False], ids=["while it runs", "while it does not"])
def test_a_stream_that_came_back_empty_ends_a_bridge_with_9(machine: Make, is_alive: bool) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.send_many([("@prices", b"%d" % n) for n in range(20)], timeout=WAIT_S)
        if not is_alive:
            here.end()
        comes_back_empty(here.server)
        if not is_alive:
            here.begin(waits=False)
        assert here.process
        here.process.wait(WAIT_S)
        assert here.end()[0] == 9


@pytest.mark.long
def test_a_machine_of_another_history_ends_and_those_of_this_one_go_on(machine: Make) -> None:  # noqa: F811
    old = machine("m1")
    old.end()
    comes_back_empty(old.server)
    with machine("m2").bus.join("bob") as bob:
        for _ in range(10):  # the place where the other one stands was used again
            bob.send("@prices", b"", timeout=WAIT_S)
        code, written = ends_by_itself(old)
        assert code == 9
        assert "holds another batch" in written
        bob.sync("@prices", timeout=WAIT_S)


@pytest.mark.long
def test_a_server_that_is_killed_and_comes_back_with_its_files_loses_nothing(machine: Make, server: NatsServer) -> None:  # noqa: F811
    assert run_busq("bridge", "init", "filed", "--server", server.url).returncode == 0
    here = machine("m1", begins=False)
    here.domain = "filed"
    here.begin()
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        sender = threading.Thread(target=lambda: [alice.send("@prices", b"%d" % n) for n in range(200)])
        sender.start()
        received = []
        for _ in range(3):
            received += data_of(alice, 20)
            server.end()
            server.start()
        received += data_of(alice, 140)
        sender.join()
        assert [data for _, data, _ in received] == [b"%d" % n for n in range(200)]


def test_of_many_that_stand_before_a_full_queue_the_first_ones_are_sent(machine: Make) -> None:  # noqa: F811
    here = machine("m1", capacity=512)
    with here.bus.join("alice") as alice, here.bus.join("bob") as bob:
        bob.enter("prices")
        messages = [b"%d" % n for n in range(1000)]
        with pytest.raises(busq.Unreachable, match="stored and to be delivered") as failed:
            alice.send_many([("@prices", data) for data in messages], timeout=1)
        assert failed.value.sent == 511  # beside its view
        assert [data for _, data, _ in data_of(bob, 1000)] == messages
        alice.send("@prices", b"last", timeout=WAIT_S)
        assert [data for _, data, _ in data_of(bob, 1)] == [b"last"]


def test_messages_of_all_kinds_go_together(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        sent = [b"", b"a", bytearray(b"bc"), memoryview(b"def"), [b"g", b"hi"], bytes(200_000), bytes(100_000), []]
        sent += [b"%d" % n for n in range(300)]
        assert alice.send_many([("@prices", data) for data in sent], timeout=WAIT_S) == len(sent)
        expected = [b"".join(data) if isinstance(data, list) else bytes(data) for data in sent]
        assert [data for _, data, _ in data_of(alice, len(sent))] == expected


def test_what_can_not_be_sent_is_raised_behind_what_stands_before_it(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        for wrong, kind in ((bytes(300_000), ValueError), ("text", TypeError)):
            with pytest.raises(kind) as failed:
                alice.send_many([("@prices", b"1"), ("@prices", b"2"), ("@prices", wrong), ("@prices", b"4")])
            assert failed.value.sent == 2  # type: ignore[attr-defined]
            assert [data for _, data, _ in data_of(alice, 2)] == [b"1", b"2"]


@pytest.mark.long
def test_groups_and_machines_are_checked_at_the_start(machine: Make) -> None:  # noqa: F811
    here = machine("m1", begins=False)
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        code, written = begin_and_end(here)
        assert code == 2
        assert "entered before it was wide" in written
        alice.leave("prices")
    small = machine("m3", begins=False, capacity=64)
    code, written = begin_and_end(small)
    assert code == 2
    assert "512 or more" in written
    here.begin()
    second = run_busq(*here.command()[4:])
    assert second.returncode == 1
    assert "one is enough" in second.stderr
    here.name = "no.dots"
    assert run_busq(*here.command()[4:]).returncode == 2


def begin_and_end(machine: Machine) -> tuple[int, str]:  # noqa: F811
    machine.begin(waits=False)
    assert machine.process
    machine.process.wait(WAIT_S)
    return machine.end()


def test_threads_of_one_peer_send_at_once(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with here.bus.join("alice") as alice:
        alice.enter("prices")
        threads = [
            threading.Thread(target=alice.send_many, args=([("@prices", b"%d %d" % (who, n)) for n in range(50)],))
            for who in range(4)
        ]
        for thread in threads:
            thread.start()
        received = [data for _, data, _ in data_of(alice, 200)]
        for thread in threads:
            thread.join()
    for who in range(4):
        sent = [b"%d %d" % (who, n) for n in range(50)]
        assert [data for data in received if data.startswith(b"%d " % who)] == sent


def test_a_sender_that_is_killed_while_it_waits_keeps_none_waiting(machine: Make, fork: Fork) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
        bob.enter("prices")
        stop(here.server.process.pid)
        try:
            child = fork(send_one, here.bus.name)
            wait_until("it has asked", lambda: n_sent(here, "carl"))
            child.kill()
            child.wait()
        finally:
            here.server.process.send_signal(signal.SIGCONT)
        alice.send("@prices", b"alice's", timeout=WAIT_S)
        assert sorted(data for _, data, _ in data_of(bob, 2)) == [b"alice's", b"carl's"]


def send_one(bus_name: str) -> None:
    busq.Bus.open(bus_name).join("carl").send("@prices", b"carl's")


def n_sent(machine: Machine, name: str) -> int:  # noqa: F811
    return sum(one["sent"] for one in machine.bus.stats()["peers"] if one["name"] == name)
