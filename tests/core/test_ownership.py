# SPDX-License-Identifier: Apache-2.0
"""What is taken from a bus has one owner at every moment, whatever exception, thread, signal or fork comes between.

A struck call is one into which an exception is thrown at one of its boundaries: before a line or an instruction of
busq's Python code, or when a function of the core returns to it.
"""

from __future__ import annotations

import contextlib
import dis
import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Child, depth, fresh_python, uncollected, wait_until

import busq
from busq._native import _core as core
from busq._native import ffi, lib

SMALL, LARGE = 100, 50_000
PACKAGE = str(Path(busq.__file__).parent)


class Patience(float):
    """A timeout of a class of its own: what is not plainly right goes the long way."""


class StruckError(Exception):
    pass


@contextlib.contextmanager
def struck(at: int) -> Iterator[Callable[[], bool]]:
    """Throw StruckError at the boundary of that number, once; yield what shows whether it was reached."""
    left = [at]

    def pass_boundary() -> None:
        left[0] -= 1
        if left[0] == -1:
            raise StruckError

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        # At its last instruction a call has returned, as far as any caller can see.
        is_last = event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
        if event in ("line", "opcode") and not is_last:
            pass_boundary()
        return trace

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "c_return" and frame.f_code.co_filename.startswith(PACKAGE):
            pass_boundary()

    with uncollected():
        sys.setprofile(profile)
        sys.settrace(trace)
        try:
            yield lambda: left[0] < 0
        finally:
            sys.settrace(None)
            sys.setprofile(None)


def strike_everywhere(prepare: Callable[[], Any], call: Callable[[Any], Any], judge: Callable[[Any, Any], None]) -> int:
    """Strike the call at its first boundary, its second, until it comes through; judge gets what prepare has returned
    and the exception, None at the end.  Returns how often it was struck.
    """
    for at in range(100_000):
        given = prepare()
        error: StruckError | None = None
        with struck(at) as was_reached:
            try:
                call(given)
            except StruckError as caught:
                error = caught.with_traceback(None)
        assert was_reached() or error is None
        if not was_reached():
            judge(given, None)
            return at
        if error is not None:
            judge(given, error)
    raise AssertionError("it never came through")


def pattern(size: int, number: int) -> bytes:
    return bytes([number % 251]) * size


# ---- a view ----


def test_a_view_that_is_struck_leaves_its_message_whole(bus: busq.Bus) -> None:
    alice = bus.join("alice")

    def receive() -> Any:
        alice.send("alice", pattern(LARGE, 1))
        return alice.recv()

    def judge(message: Any, error: StruckError | None) -> None:
        if error is None:
            return
        assert depth(bus, "alice") == 1, "it was released, and somebody still has it"
        assert message.data == pattern(LARGE, 1)
        assert depth(bus, "alice") == 0

    strike_everywhere(receive, lambda message: message.view().release(), judge)
    assert depth(bus, "alice") == 0


def test_data_that_is_struck_leaves_its_message_whole(bus: busq.Bus) -> None:
    alice = bus.join("alice")

    def receive() -> Any:
        alice.send("alice", pattern(LARGE, 1))
        return alice.recv()

    def judge(message: Any, _: StruckError | None) -> None:
        assert message.data == pattern(LARGE, 1)
        assert depth(bus, "alice") == 0

    strike_everywhere(receive, lambda message: message.data, judge)


CALLS: dict[str, Callable[[Any], Any]] = {
    "view": lambda message: message.view(),
    "data": lambda message: message.data,
    "ack": lambda message: message.ack(),
}


@pytest.mark.parametrize("pair", ["view view", "view data", "data data", "ack ack", "ack data"])
def test_two_threads_may_use_one_message(make_bus: Callable[..., busq.Bus], pair: str) -> None:
    """The second one finds what the first has left, and the message is released once, by the last."""
    bus = make_bus(capacity=4)
    alice = bus.join("alice")
    names = pair.split()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(600):
            alice.send("alice", pattern(LARGE, number), timeout=0)
            alice.send("alice", b"next", timeout=0)
            message = alice.recv(timeout=0, ack="ack" in names)
            got: list[Any] = []
            both = threading.Barrier(2)

            def use(name: str, message: Any = message, got: list[Any] = got, both: Any = both) -> None:
                both.wait()
                try:
                    got.append(CALLS[name](message))
                except BaseException as error:
                    got.append(error)

            threads = [threading.Thread(target=use, args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [x for x in got if isinstance(x, BaseException)] == []
            # The memory of what was released would be that of another message by now.
            alice.send("alice", pattern(LARGE, number + 1), timeout=0)
            assert all(bytes(x) == pattern(LARGE, number) for x in got if x is not None)
            del message, got, use, threads
            assert [m.data[:4] for m in alice.recv_many(4, timeout=0)] == [b"next", pattern(4, number + 1)]
            assert depth(bus, "alice") == 0
    finally:
        sys.setswitchinterval(before)


# ---- receiving ----


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("timeout", [math.inf, 1e9, Patience(5), 5, 0])
@pytest.mark.parametrize("call", ["recv", "recv_many"])
def test_what_a_struck_receive_has_taken_comes_again_in_order(
    make_bus: Callable[..., busq.Bus], call: str, timeout: float, ack: bool, size: int
) -> None:
    bus = make_bus(capacity=8)
    alice = bus.join("alice")
    payloads = [pattern(size, number) for number in range(3)]

    def send() -> list[Any]:
        for payload in payloads:
            alice.send("alice", payload, timeout=0)
        return []

    def receive(got: list[Any]) -> None:
        got += [alice.recv(timeout, ack=ack)] if call == "recv" else alice.recv_many(2, timeout, ack=ack)

    def judge(got: list[Any], error: StruckError | None) -> None:
        assert not got or error is None
        for message in got:
            message.ack()
        found = [*got, *alice.recv_many(8, timeout=0)]
        assert [m.data for m in found] == payloads
        assert not any(m.redelivered for m in found)
        got.clear()
        del found
        assert depth(bus, "alice") == 0

    strike_everywhere(send, receive, judge)


def peer_of(port: Any) -> Any:
    """The peer of the core, for cffi; for as long as the port lives."""
    return ffi.cast("busq_peer *", core.address(port))


def test_what_was_given_back_wakes_a_thread_and_the_descriptor_and_comes_to_a_successor(bus: busq.Bus) -> None:
    alice = bus.join("alice", durable=True)
    alice.fileno()
    pin = ffi.gc(ffi.new("busq_pin *"), lib.busq_pin_drop)
    for mode in (lib.BUSQ_TAKE_PINNED, lib.BUSQ_TAKE_OFFERED):
        alice.send_many([("alice", b"%d" % number) for number in range(3)])
        assert lib.busq_pin_recv(pin, peer_of(alice), mode, 0) == lib.BUSQ_OK
        assert [m.data for m in alice.recv_many(5, timeout=0)] == [b"1", b"2"]
        got: list[bytes] = []
        waiting = threading.Thread(target=lambda got=got: got.append(alice.recv().data))
        waiting.start()
        lib.busq_pin_give_back(pin)
        waiting.join()
        assert got == [b"0"]
    alice.send_many([("alice", b"%d" % number) for number in range(3)])
    assert lib.busq_pin_recv(pin, peer_of(alice), lib.BUSQ_TAKE_PINNED, 0) == lib.BUSQ_OK
    assert alice.recv(timeout=0).data == b"1"
    lib.busq_pin_give_back(pin)
    alice.close()
    with bus.join("alice", resume=True) as successor:
        found = successor.recv_many(5, timeout=0)
        assert [(m.data, m.redelivered) for m in found] == [(b"0", False), (b"2", False)]


def test_what_a_closed_peer_gives_back_comes_to_its_successor(bus: busq.Bus) -> None:
    alice = bus.join("alice", durable=True)
    pin = ffi.gc(ffi.new("busq_pin *"), lib.busq_pin_drop)
    alice.send_many([("alice", b"0"), ("alice", b"1")])
    assert lib.busq_pin_recv(pin, peer_of(alice), lib.BUSQ_TAKE_PINNED, 0) == lib.BUSQ_OK
    alice.close()
    lib.busq_pin_give_back(pin)
    with bus.join("alice", resume=True) as successor:
        assert [m.data for m in successor.recv_many(5, timeout=0)] == [b"0", b"1"]


def interrupted_while_waiting(name: str, timeout: float | None, times: int) -> tuple[int, int, int]:
    """Receive in a storm of signals whose handler raises; how many came, how many exceptions, what is left behind."""
    bus = busq.Bus.open(name)
    alice = bus.join("alice")

    def strike(*_: Any) -> None:
        raise StruckError

    signal.signal(signal.SIGALRM, strike)
    n_received = n_struck = 0
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            with contextlib.suppress(busq.Full):
                alice.send("alice", b"m", timeout=0.01)

    sender = threading.Thread(target=send)
    sender.start()
    while n_struck < times:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            while True:
                alice.recv(timeout)
                n_received += 1
        except StruckError:
            n_struck += 1
    stop.set()
    sender.join()
    while True:
        try:
            alice.recv(timeout=0)
        except busq.Empty:
            break
    return n_received, n_struck, depth(bus, "alice")


@pytest.mark.parametrize("timeout", [None, 10, math.inf, Patience(10)])
def test_signals_that_raise_do_not_fill_the_queue(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], timeout: float | None
) -> None:
    bus = make_bus(capacity=64)
    received, struck_times, left = fork(interrupted_while_waiting, bus.name, timeout, 300).result()
    assert (struck_times, left) == (300, 0)
    assert received > 0


def receive_lists(name: str, lists: int, each: int) -> tuple[int, int]:
    """How many calls were interrupted, and how many messages were received by none."""
    bus = busq.Bus.open(name)
    alice = bus.join("alice")

    def strike(*_: Any) -> None:
        raise StruckError

    signal.signal(signal.SIGALRM, strike)
    n_struck = n_lost = 0
    for number in range(1, lists + 1):
        alice.send_many([("alice", b"m")] * each)
        got: list[Any] = []
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * number / lists)  # the call takes about so long
            while len(got) < each:
                got += alice.recv_many(each)
            while True:  # pause() would sleep for ever if the signal came right before it
                time.sleep(0.001)
        except StruckError:
            n_struck += 1
        with contextlib.suppress(busq.Empty):
            while True:
                got += alice.recv_many(each, timeout=0)
        n_lost += len(got) != each
    return n_struck, n_lost


def test_a_list_that_is_interrupted_comes_again(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    """A handler may also raise when the call has returned, or as good as that (it releases what it has copied, a
    twentieth of its time), and that can't be helped; in a copy of thousands it must not lose them."""
    bus = make_bus(capacity=16384, arena=16 << 20)
    interrupted, lost = fork(receive_lists, bus.name, 60, 10_000).result()
    assert interrupted == 60
    assert lost <= 12, lost


# ---- joining and opening ----


@pytest.mark.parametrize("order", ["bus1", "fifo"])
def test_a_join_that_is_struck_leaves_the_name_free(make_bus: Callable[..., busq.Bus], order: str) -> None:
    bus = make_bus(order=order, peers=1000 if order != "bus1" else 8)
    bus.join("first").close()  # modules are imported by now

    def judge(_: None, error: StruckError | None) -> None:
        del error
        assert bus.peers() == [], "nobody has this peer, and it is there"

    assert strike_everywhere(lambda: None, lambda _: bus.join("alice").close(), judge) > 10


def mappings(name: str) -> int:
    return Path("/proc/self/maps").read_text().count(name)


@pytest.mark.parametrize("way", ["open", "create"])
def test_a_bus_whose_opening_is_struck_is_closed(bus: busq.Bus, bus_name: str, way: str) -> None:
    name = bus.name if way == "open" else f"{bus_name}-made"

    def call(_: None) -> None:
        (busq.Bus.open(name) if way == "open" else busq.Bus.create(name, arena=1 << 20)).close()

    def clean() -> None:
        if way == "create":
            with contextlib.suppress(FileNotFoundError):
                busq.Bus.unlink(name)

    before = mappings(name)

    def judge(_: None, error: StruckError | None) -> None:
        del error
        assert mappings(name) == before

    assert strike_everywhere(clean, call, judge) > 10
    clean()


# ---- sending ----


@pytest.mark.parametrize("data", [b"m" * SMALL, bytearray(b"m")], ids=["bytes", "bytearray"])
@pytest.mark.parametrize("order", ["bus1", "fifo"])
def test_an_exception_out_of_a_send_says_whether_it_was_sent(
    make_bus: Callable[..., busq.Bus], order: str, data: bytes
) -> None:
    bus = make_bus(order=order, peers=2)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"everybody knows everybody")
    bob.recv()

    def came() -> int:
        try:
            return len(bob.recv_many(5, timeout=0 if order == "bus1" else 0.05))
        except busq.Empty:
            return 0

    def judge(_: None, error: Any) -> None:
        assert came() == (1 if error is None else getattr(error, "sent", 0))

    strike_everywhere(lambda: None, lambda _: alice.send("bob", data), judge)


def send_in_a_storm(name: str, count: int, times: int) -> tuple[list[int], list[int], int, int]:
    """Numbers of messages that were sent, and that were not; how many exceptions had them, and how many had not."""
    bus = busq.Bus.open(name)
    line = 0

    def strike(_: int, frame: Any) -> None:
        if line and (frame.f_code.co_filename.startswith(PACKAGE) or frame.f_lineno == line):
            raise StruckError

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    sent: list[int] = []
    unsent: list[int] = []
    n_told = n_untold = 0
    with bus.join("sender") as peer:
        for number in range(count):
            try:
                line = sys._getframe().f_lineno + 1
                peer.send("receiver", b"%020d" % number * times)
            except StruckError as error:
                line = 0
                if hasattr(error, "sent"):
                    n_told += 1
                    (sent if error.sent else unsent).append(number)
                else:
                    n_untold += 1
            else:
                line = 0
                sent.append(number)
        line = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
    return sent, unsent, n_told, n_untold


def receive_all(name: str) -> list[int]:
    with busq.Bus.open(name).join("receiver") as peer:
        return [int(message.data[:20]) for message in peer]


@pytest.mark.parametrize(("count", "times"), [(20_000, 1), (2_000, 5_000)])
def test_a_send_in_a_storm_of_signals_that_raise_says_what_it_did(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], count: int, times: int
) -> None:
    bus = make_bus(capacity=8)
    receiver = fork(receive_all, bus.name)
    wait_until(lambda: "receiver" in bus.peers())
    sent, unsent, n_told, n_untold = fork(send_in_a_storm, bus.name, count, times).result()
    bus.shutdown()
    came = receiver.result()
    print(f"{n_told} exceptions told, {n_untold} came from outside the call: before it, or when it had returned")
    assert n_told > 0
    assert came == sorted({*came})
    assert {*sent} <= {*came}
    assert {*unsent} & {*came} == set()


# ---- fork ----


def test_what_was_shown_before_a_fork_stays_what_it_was(bus: busq.Bus) -> None:
    """The parent releases it at once, and the memory is used again, before the child looks."""
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE, 1))
    alice.send("alice", pattern(LARGE, 2))
    alice.send("alice", pattern(SMALL, 3))
    message, unread, offered = alice.recv(), alice.recv(), alice.recv(ack=True)
    view = message.view()
    part = view[LARGE // 2 :]
    go_reader, go = os.pipe()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        answers: list[object] = []
        try:
            os.read(go_reader, 1)
            answers += [bytes(view) == pattern(LARGE, 1), bytes(part) == pattern(LARGE - LARGE // 2, 1)]
            answers.append(message.data == pattern(LARGE, 1))
            for call in (lambda: unread.data, unread.view, offered.ack, lambda: alice.recv(timeout=0)):
                try:
                    call()
                    answers.append("no error")
                except busq.ForkedHandle:
                    answers.append("ForkedHandle")
            part.release()
            view.release()
            with bus.join("child") as child:  # the parent's bus works on, in a mapping that is shared
                child.send("alice", b"from the child")
                answers.append(bus.peers())
        except BaseException as error:
            answers.append(repr(error))
        os.write(writer, repr(answers).encode())
        os._exit(0)
    part.release()
    view.release()
    assert unread.data == pattern(LARGE, 2)
    offered.ack()
    for number in range(40):
        alice.send("alice", pattern(LARGE, 4 + number), timeout=0)
        assert alice.recv().data == pattern(LARGE, 4 + number)
    os.write(go, b"!")
    os.waitpid(pid, 0)
    told = os.read(reader, 10_000).decode()
    for descriptor in (go_reader, go, reader, writer):
        os.close(descriptor)
    assert told == repr([True, True, True, *["ForkedHandle"] * 4, ["alice", "child"]])
    assert alice.recv(timeout=0).data == b"from the child"
    assert depth(bus, "alice") == 0


def test_a_child_that_drops_what_it_got_by_a_fork_releases_nothing(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE, 1))
    alice.send("alice", pattern(LARGE, 2))
    kept: list[Any] = [alice.recv(), alice.recv()]
    kept.append(kept[0].view())

    def drop() -> int:
        kept.clear()
        gc.collect()
        return depth(bus, "alice")

    assert fork(drop).result() == 2
    assert depth(bus, "alice") == 2
    assert (kept[2] == pattern(LARGE, 1), kept[1].data == pattern(LARGE, 2)) == (True, True)
    kept.clear()
    assert depth(bus, "alice") == 0


def test_payloads_that_share_a_page_and_a_child_of_a_child(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    payloads = [pattern(5000 + number, number) for number in range(20)]
    alice.send_many([("alice", payload) for payload in payloads])
    views = [m.view() for m in alice.recv_many(20)]

    def are_whole() -> bool:
        return all(bytes(view) == payload for view, payload in zip(views, payloads, strict=True))

    def child() -> tuple[bool, bool]:
        return are_whole(), bool(Child(are_whole, ()).result())

    assert fork(child).result() == (True, True)
    assert are_whole()


# ---- names that run code ----

SHRINKS = """
import busq, os, sys
bus = busq.Bus.create("shrinks-%d" % os.getpid())
busq.Bus.unlink(bus.name)
alice, bob = bus.join("alice"), bus.join("bob")
class Name(str):
    def __hash__(self):
        if to: del to[:]
        if pairs: del pairs[:]
        return str.__hash__(self)
    def __eq__(self, other):
        return str.__eq__(self, other)
to, pairs = [], []
alice.send(["alice", "bob"], b"both are known")
for _ in range(2000):
    to[:] = [Name("alice"), "b" + "ob" * int(sys.argv[1]), *("x" * n for n in range(20))]
    try: alice.send(to, b"one or both")
    except (busq.BusqError, ValueError, IndexError): pass
    pairs[:] = [(Name("alice"), bytes(200)), (Name("bob"), bytes(200))]
    try: alice.send_many(pairs)
    except (busq.BusqError, ValueError, TypeError): pass
    for peer in (alice, bob):
        try: peer.recv_many(100, timeout=0)
        except busq.Empty: pass
print("whole")
"""


def test_receivers_that_vanish_from_the_list_while_they_are_looked_up() -> None:
    done = fresh_python(SHRINKS, "1", PYTHONMALLOC="debug")
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-3000:]


class Raising(str):
    """A name that raises where it is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise KeyboardInterrupt


class Shrinking(Raising):
    """A name whose lookup empties the list that it came from as well."""

    pairs: list[Any]

    def __hash__(self) -> int:
        self.pairs.clear()
        return super().__hash__()


@pytest.mark.parametrize("kind", [Raising, Shrinking])
def test_what_looking_a_name_up_raises_ends_a_send_of_many(bus: busq.Bus, kind: type[Raising]) -> None:
    with bus.join("alice") as alice:
        alice.send("alice", b"0")  # the name is known from here on
        name = kind("alice")
        pairs: list[Any] = [("alice", b"1"), (name, b"2"), ("alice", b"3")]
        if isinstance(name, Shrinking):
            name.pairs = pairs
        with pytest.raises(KeyboardInterrupt) as raised:
            alice.send_many(pairs)
        assert raised.value.sent == 1  # type: ignore[attr-defined]
        assert [message.data for message in alice.recv_many(9)] == [b"0", b"1"]


class Named(str):
    """A name that can have attributes."""

    peer: Any


@pytest.mark.parametrize("held", ["draft", "name"])
def test_a_peer_that_is_dropped_in_a_circle_leaves(bus: busq.Bus, held: str) -> None:
    alice: Any = bus.join("alice")
    if held == "draft":
        alice.draft = alice.reserve(5)
    else:
        name = Named("alice")
        name.peer = alice
        alice.send(name, b"to myself")
        del name
    del alice
    gc.collect()
    bus.join("alice").close()
