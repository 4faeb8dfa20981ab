# SPDX-License-Identifier: Apache-2.0
"""`Peer.enter` with `state` and `take`: a late joiner of a group has what the others have."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Child, wait_until
from test_ownership import StruckError, struck

import busq

Fork = Callable[..., Child]


class Log:
    """A peer whose state is all that its group was sent."""

    is_lax = False  # it was a member before, or is struck

    def __init__(self, peer: busq.Peer, group: str = "log") -> None:
        self.peer = peer
        self.lines: list[bytes] = []
        self.views: list[int] = []
        self.other: list[bytes] = []
        self.taken = 0
        peer.enter(group, state=self.state, take=self.take)

    def state(self) -> bytes:
        return b"\n".join(self.lines)

    def take(self, state: bytes) -> None:
        assert self.is_lax or (not self.lines and not self.views)
        self.lines = state.split(b"\n") if state else []
        self.taken += 1

    def read(self, timeout: float = 0) -> bool:
        try:
            message = self.peer.recv(timeout)
        except busq.Empty:
            return False
        self.note(message)
        return True

    def note(self, message: busq.Message) -> None:
        if message.kind == "view":
            self.views.append(message.view.number)  # type: ignore[attr-defined]
        elif message.data.startswith(b"aside"):
            self.other.append(message.data)
        else:
            assert message.kind == "data"
            self.lines.append(message.data)

    def read_all(self) -> None:
        while self.read():
            pass


class Counting(Log):
    """A state that depends on views: it has a line for each."""

    def note(self, message: busq.Message) -> None:
        super().note(message)
        if message.kind == "view":
            self.lines.append(f"view {message.view.number}".encode())  # type: ignore[attr-defined]


def read_until(logs: list[Log], condition: Callable[[], bool]) -> None:
    def look() -> bool:
        for log in logs:
            log.read_all()
        return condition()

    wait_until(look)


def test_a_late_joiner_has_what_the_others_have(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob, bus.join("cid") as cid:
        first = Log(ann)
        ann.send("@log", b"one")
        first.read_all()
        ann.send("@log", b"two")
        second = Log(bob)
        ann.send("@log", b"three")
        bob.send("bob", b"aside, to bob alone")
        assert not second.read()  # it holds back what follows until it has the state
        read_until([first, second], lambda: len(second.lines) == 3)
        assert first.lines == second.lines == [b"one", b"two", b"three"]
        assert (first.views, second.views) == ([1, 2], [2])
        assert (first.taken, second.taken) == (0, 1)
        assert second.other == [b"aside, to bob alone"]
        third = Log(cid)
        bob.send("@log", b"four")
        read_until([first, second, third], lambda: len(third.lines) == 4)
        assert third.lines == first.lines == second.lines


def test_the_next_one_gives_where_the_first_does_not(bus: busq.Bus) -> None:
    """The first has entered before all others, and leaves before it has seen the joiner."""
    ann, bob, cid = bus.join("ann"), bus.join("bob"), bus.join("cid")
    first = Log(ann)
    second = Log(bob)
    ann.send("@log", b"one")
    read_until([first, second], lambda: len(second.lines) == 1)
    third = Log(cid)
    ann.send("@log", b"two")
    second.read_all()
    assert not third.read()
    ann.close()
    read_until([second, third], lambda: len(third.lines) == 2)
    assert third.lines == second.lines == [b"one", b"two"]
    assert third.views == [4]
    bob.close()
    cid.close()


def test_a_view_that_is_in_the_state_does_not_come_behind_it(bus: busq.Bus) -> None:
    """Bob gets the state of ann, which leaves before cid has it, and gives it before any member is known to have it."""
    ann, bob, cid = bus.join("ann"), bus.join("bob"), bus.join("cid")
    first = Counting(ann)
    first.read_all()
    second = Counting(bob)
    first.read_all()  # gives to bob
    third = Counting(cid)
    ann.close()
    ann = bus.join("late")  # whose view stands behind that, and in front of what bob gives
    fourth = Counting(ann)
    bob.send("cid", b"aside")
    logs = [second, third, fourth]
    read_until(logs, lambda: all(log.views and log.views[-1] == 5 for log in logs))
    assert second.lines == third.lines == fourth.lines
    assert second.lines == [b"view %d" % number for number in range(1, 6)]
    assert second.views == [2, 3, 4, 5]
    assert third.other == [b"aside"]
    assert not any(log.read() for log in logs)
    for peer in (ann, bob, cid):
        peer.close()


def test_a_state_in_many_pieces(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=8, arena=1 << 16)
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        first.lines = [os.urandom(500).replace(b"\n", b"") for _ in range(1000)]
        second = Log(bob)
        read_until([first, second], lambda: bool(second.lines))
        assert second.lines == first.lines


def test_a_state_has_what_came_in_the_same_call(bus: busq.Bus) -> None:
    """What its owner has not got so far is not in the state."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        first.read_all()
        ann.send("@log", b"one")
        second = Log(bob)
        ann.send("@log", b"two")
        for count in (1, 2):
            messages = ann.recv_many(9)
            assert len(messages) == count
            for message in messages:
                first.note(message)
        read_until([first, second], lambda: len(second.lines) == 2)
        assert first.lines == second.lines == [b"one", b"two"]


def test_several_groups_at_once(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        taken: dict[str, bytes] = {}
        for group in ("a", "b", "c"):
            ann.enter(group, state=group.encode, take=taken.clear)  # type: ignore[arg-type]
        for group in ("c", "a", "b"):
            bob.enter(group, state=bytes, take=lambda state, group=group: taken.update({group: state}))  # type: ignore[misc]
        bob.send(["@a", "bob"], b"both ways")
        got: list[Any] = []

        def look() -> bool:
            for peer in (ann, bob):
                try:
                    got.append((peer.name, peer.recv(timeout=0).kind))
                except busq.Empty:
                    continue
            return got.count(("bob", "data")) == 1 and got.count(("bob", "view")) == 3

        wait_until(look)
        assert taken == {"a": b"a", "b": b"b", "c": b"c"}


def test_members_that_give_nothing_get_no_words_of_the_library(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        bob.enter("log")
        first.read_all()
        ann.send("@log", b"one")
        first.read_all()
        kinds = [message.kind for message in bob.recv_many(9, timeout=5)]
        assert kinds == ["view", "data"]
        with pytest.raises(busq.Empty):
            bob.recv(timeout=0)


@pytest.mark.parametrize("given", [{"state": bytes}, {"take": print}, {"state": 5, "take": print}])
def test_state_and_take_are_given_together(bus: busq.Bus, given: dict[str, Any]) -> None:
    with bus.join("ann") as ann, pytest.raises(TypeError, match="state and take are given together"):
        ann.enter("log", **given)


def test_a_member_that_has_left_may_enter_again(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first, second = Log(ann), Log(bob)
        read_until([first, second], lambda: second.views == [2])
        bob.leave("log")
        ann.send("@log", b"one")
        read_until([first, second], lambda: second.views == [2, 3] and first.lines == [b"one"])
        again = Log(bob)
        read_until([first, again], lambda: again.lines == [b"one"])


@pytest.mark.parametrize("n_read", [0, 1, 2, 9])
def test_a_successor_that_enters_again_takes_the_state(bus: busq.Bus, n_read: int) -> None:
    """What its predecessor was sent as a member, and its leaving, are still in the queue, and come first."""
    rest, first = Log(bus.join("rest")), Log(bus.join("alice"))
    read_until([rest, first], lambda: first.taken == 1)
    for number in range(4):
        rest.peer.send("@log", b"%d" % number)
    rest.read_all()
    for _ in range(n_read):
        first.read()
    first.peer.close()
    rest.peer.send("@log", b"while it was away")
    second = Log.__new__(Log)
    second.is_lax = True
    second.__init__(bus.join("alice", resume=True))  # type: ignore[misc]
    rest.peer.send("@log", b"behind its entering")
    read_until([rest, second], lambda: second.taken == 1)
    rest.peer.send("@log", b"last")
    read_until([rest, second], lambda: b"last" in second.lines and b"last" in rest.lines)
    assert second.lines == rest.lines
    assert second.taken == 1


def test_a_member_that_leaves_and_enters_before_it_reads_of_it(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first, second = Log(ann), Log(bob)
        read_until([first, second], lambda: second.views == [2])
        second.is_lax = True
        for _ in range(3):
            bob.leave("log")
            ann.send("@log", b"one")
            for _ in range(2):  # the second time, it does nothing
                bob.enter("log", state=second.state, take=second.take)
        # A state that did not come before it left has no view with it in front of the one without it.
        read_until([first, second], lambda: second.views == [2, 3, 5, 7, 8])
        assert first.lines == second.lines == [b"one"] * 3
        assert second.taken == 2  # the member that was to give the others has seen it leave


def test_who_is_in_without_a_state_takes_it_when_it_enters_with_one(bus: busq.Bus, fork: Fork) -> None:
    """As does the successor of one that had it, whether its death was noticed or not."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        bob.enter("log")
        ann.send("@log", b"one")
        first.read_all()
        second = Log(bob)
        second.is_lax = True  # it gets what it was sent without a state, as well
        ann.send("@log", b"two")
        read_until([first, second], lambda: b"two" in second.lines)
        assert first.lines == second.lines == [b"one", b"two"]
        assert second.taken == 1

        def enter_and_die() -> None:
            peer = busq.Bus.open(bus.name).join("cid")
            Log(peer)
            os.kill(os.getpid(), signal.SIGKILL)

        for _ in range(3):
            fork(enter_and_die).wait()
            with bus.join("cid", resume=True) as cid:
                third = Log(cid)
                third.is_lax = True
                bob.send("@log", b"more")
                read_until([first, second, third], lambda third=third: third.lines == first.lines)  # type: ignore[misc]
                assert third.taken == 1


def test_state_may_raise_and_is_called_again(bus: busq.Bus) -> None:
    fails = [ZeroDivisionError, 5, "state"]

    def state() -> Any:
        if fails:
            what = fails.pop(0)
            if isinstance(what, type):
                raise what
            return what
        return b"state"

    taken: list[bytes] = []

    def take(given: bytes) -> None:
        if given not in taken:
            taken.append(given)
            raise KeyError(given)
        taken.append(given)

    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter("g", state=state, take=take)
        bob.enter("g", state=state, take=take)
        assert ann.recv().kind == "view"
        with pytest.raises(ZeroDivisionError):
            ann.recv()
        for what in ("int", "str"):
            with pytest.raises(TypeError, match=f"what `state` returned has type {what}: expected bytes-like"):
                ann.recv()
        assert ann.recv().view.members == ("ann", "bob")  # type: ignore[attr-defined]
        with pytest.raises(KeyError):
            bob.recv(timeout=60)
        assert bob.recv(timeout=60).view.members == ("ann", "bob")  # type: ignore[attr-defined]
        assert taken == [b"state", b"state"]


def test_state_and_take_may_not_receive(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter("g", state=lambda: ann.recv(timeout=0).data, take=print)
        assert ann.recv().kind == "view"
        bob.enter("g", state=bytes, take=print)
        with pytest.raises(RuntimeError, match="may not receive"):
            ann.recv()


def test_calls_that_wait_by_then_go_the_same_way(bus: busq.Bus) -> None:
    """A loop that has begun, and a thread that waits, when the peer enters with a state."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        first.lines = [b"zero"]
        got: list[Any] = []

        def loop() -> None:
            for message in bob:
                got.append(message.kind if message.kind != "data" else message.data)
                if message.data == b"end":
                    return

        reader = threading.Thread(target=loop)
        reader.start()
        ann.send("bob", b"begin")
        wait_until(lambda: got == [b"begin"])
        taken: list[bytes] = []
        bob.enter("log", state=bytes, take=taken.append)
        ann.send("bob", b"held back")
        ann.send("bob", b"held back, too")
        assert got == [b"begin"]
        first.read_all()
        ann.send("@log", b"end")
        reader.join()
        assert (got, taken) == ([b"begin", "view", b"held back", b"held back, too", b"end"], [b"zero"])


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.long)])
def test_whatever_strikes_nothing_is_lost_or_doubled(bus: busq.Bus, step: int, seed: int) -> None:
    """An exception between any two steps of the calls by which a state is given and taken."""
    for at in itertools.count(seed % step, step):
        with bus.join(f"ann {at}") as ann, bus.join(f"bob {at}") as bob:
            first, second = Log(ann, f"log {at}"), Log(bob, f"log {at}")
            first.lines, second.is_lax = [b"zero"], True
            ann.send([f"@log {at}", bob.name], b"one")
            ann.send(bob.name, b"aside")
            got: list[tuple[Log, busq.Message]] = []
            with struck(at) as was_reached, contextlib.suppress(StruckError):
                for log in (first, second, first, second):
                    with contextlib.suppress(busq.Empty):
                        while True:
                            got.append((log, log.peer.recv(timeout=0)))
            for log, message in got:
                log.note(message)
            read_until([first, second], lambda second=second: len(second.lines) >= 2 and bool(second.other))  # type: ignore[misc]
            assert not first.read()
            assert not second.read()
            assert second.taken in (1, 1 + was_reached())
            assert first.lines == second.lines == [b"zero", b"one"]
            # Numbers go on from those of a group whose place this one has got.
            assert ([view - first.views[0] for view in first.views], second.views) == ([0, 1], first.views[1:])
            assert second.other == [b"aside"]
        if not was_reached():
            assert at > 500
            return
        bus.collect()


def test_what_a_struck_call_did_not_return_comes_to_a_successor(bus: busq.Bus) -> None:
    """Where no state is awaited: a message is in the queue, or in the hands of the owner, at any step of the call."""
    n_struck = 0
    for at in itertools.count():
        with bus.join("ann") as ann:
            bob = bus.join("bob", durable=True)
            first, second = Log(ann), Log(bob)
            second.is_lax = True
            read_until([first, second], lambda second=second: second.taken == 1)  # type: ignore[misc]
            ann.send("bob", b"one")
            got: list[busq.Message] = []
            with struck(at) as was_reached, contextlib.suppress(StruckError):
                got.extend(itertools.starmap(bob.recv, [(0,)]))
            bob.close()
            with bus.join("bob", durable=True, resume=True) as bob:
                with contextlib.suppress(busq.Empty):
                    got += bob.recv_many(9, timeout=0)
                assert [message.data for message in got if message.kind == "data"] == [b"one"], at
        bus.remove("bob")
        bus.collect()
        if not was_reached():
            break
        n_struck += 1
    assert n_struck > 10


def live(name: str, me: str, seed: int) -> None:
    drawn = random.Random(f"{seed} {me}")
    with busq.Bus.open(name).join(me) as peer:
        log = Counting(peer)
        for number in range(10**9):
            log.read(timeout=drawn.random() * 0.002)
            log.read_all()
            while log.views:
                try:
                    peer.send("@log", f"{me} {number}".encode(), timeout=0.01)
                    break
                except busq.Full:  # its own queue, or that of a member that waits for room in it
                    log.read_all()


def test_whoever_is_killed_a_joiner_has_what_the_rest_have(
    make_bus: Callable[..., busq.Bus], fork: Fork, seed: int
) -> None:
    bus = make_bus(peers=32, capacity=1024, arena=4 << 20)
    drawn = random.Random(seed)
    running: list[Child] = []
    with bus.join("watcher") as peer:
        for number in range(10):
            running.append(fork(live, bus.name, f"live {number}", seed))
            time.sleep(drawn.random() * 0.03)
            if len(running) > 2:
                running.pop(drawn.randrange(len(running))).kill()
            if number == 4:
                watcher = Counting(peer)
        read_until([watcher], lambda: bool(watcher.views))
        last = bus.join("last")
        entered: list[Log] = []
        entering = threading.Thread(target=lambda: entered.append(Counting(last)))
        entering.start()  # which takes room in the queue of the watcher
        read_until([watcher], lambda: bool(entered))
        late = entered[0]
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                late.read(timeout=0.001)

        reader = threading.Thread(target=read)
        reader.start()
        read_until([watcher], lambda: bool(late.views))
        for child in running:
            child.kill()
        read_until(
            [watcher],
            lambda: watcher.views[-1] == late.views[-1] and watcher.peer.view("log").members == ("watcher", "last"),
        )
        read_until([watcher], lambda: len(watcher.lines) == len(late.lines))
        stop.set()
        reader.join()
        late.read_all()
        watcher.read_all()
        assert watcher.lines == late.lines
        last.close()


def test_who_leaves_before_its_state_came_gets_nothing_of_the_group(bus: busq.Bus) -> None:
    """Bob leaves before it has the state: ann does not receive.  What else was held back is not lost."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first, second = Log(ann), Log(bob)
        ann.send("bob", b"aside 1")
        ann.send("@log", b"to all")
        ann.send("bob", b"aside 2")
        assert not second.read()
        bob.leave("log")
        second.read_all()
        assert (second.views, second.lines, second.taken) == ([3], [], 0)
        assert second.other == [b"aside 1", b"aside 2"]
        first.read_all()
        assert (first.views, first.lines) == ([1, 2, 3], [b"to all"])


def test_who_waits_for_a_message_holds_up_nobody_who_enters(bus: busq.Bus) -> None:
    with bus.join("ann") as ann:
        Log(ann)
        assert ann.recv().kind == "view"
        got: list[busq.Message] = []
        reader = threading.Thread(target=lambda: got.append(ann.recv()))
        reader.start()
        wait_until(lambda: bus.stats()["peers"][0]["waits"] == "message", what="ann waits")
        entering = threading.Thread(target=ann.enter, args=["more"], kwargs={"state": bytes, "take": bytes.decode})
        entering.start()
        reader.join()  # which gets that view
        entering.join()
        assert got[0].group == "more"  # type: ignore[attr-defined]


def test_what_a_thread_could_not_sort_goes_to_one_that_waits(bus: busq.Bus) -> None:
    """Where `state` raises in one thread, another one that waits has the message."""
    tries: list[int] = []

    def state() -> bytes:
        tries.append(1)
        return b"state" if len(tries) > 1 else b"" + None  # type: ignore[operator]

    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter("g", state=state, take=print)
        assert ann.recv().kind == "view"
        got: list[Any] = []

        def receive() -> None:
            try:
                got.append(ann.recv().kind)
            except TypeError as error:
                got.append(type(error))

        readers = [threading.Thread(target=receive) for _ in range(2)]
        for reader in readers:
            reader.start()
        wait_until(lambda: bus.stats()["peers"][0]["waits"] == "message", what="ann waits")
        bob.enter("g", state=bytes, take=print)
        for reader in readers:
            reader.join()
        assert got == [TypeError, "view"]


def test_several_threads_receive_what_was_held_back(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        bob.enter("log", state=bytes, take=bytes.decode)
        got: list[Any] = []
        readers = [threading.Thread(target=lambda: got.append(bob.recv())) for _ in range(4)]
        for reader in readers:
            reader.start()
        ann.send_many([("bob", b"%d" % number) for number in range(3)])
        read_until([first], lambda: len(got) == 4)
        assert sorted(message.kind for message in got) == ["data", "data", "data", "view"]
        for reader in readers:
            reader.join()


def test_the_end_of_the_bus_ends_every_call_that_waits(bus: busq.Bus) -> None:
    ann, bob = bus.join("ann"), bus.join("bob")
    bob.enter("log", state=bytes, take=len)
    ends: list[str] = []

    def end(receive: Callable[[], object]) -> None:
        try:
            receive()
        except busq.ShutDown:
            ends.append("ShutDown")
        else:
            ends.append("end")

    bob.recv()
    calls: list[Callable[[], object]] = [bob.recv, lambda: bob.recv_many(3), lambda: bob.recv(30), lambda: list(bob)]
    threads = [threading.Thread(target=end, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    ann.close()
    bus.shutdown()
    wait_until(lambda: len(ends) == len(calls))
    for timeout in (0, 0.001, None):
        with pytest.raises(busq.ShutDown):
            bob.recv(timeout)
    assert sorted(ends) == ["ShutDown"] * 3 + ["end"]


def test_a_timeout_holds_while_another_thread_gives_the_state(bus: busq.Bus) -> None:
    is_giving, may_go_on = threading.Event(), threading.Event()

    def give() -> bytes:
        is_giving.set()
        assert may_go_on.wait(60)
        return b"state"

    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter("log", state=give, take=len)
        assert ann.recv().kind == "view"
        bob.enter("log", state=bytes, take=len)
        got: list[busq.Message] = []
        thread = threading.Thread(target=lambda: got.append(ann.recv()))
        thread.start()
        try:
            assert is_giving.wait(60)
            bob.send("ann", b"behind it")
            for timeout in (0, 0.01):
                with pytest.raises(busq.Empty):
                    ann.recv(timeout)
                with pytest.raises(busq.Empty):
                    ann.recv_many(2, timeout)
            assert thread.is_alive()
        finally:
            may_go_on.set()
            thread.join()
        assert (got[0].kind, ann.recv().data) == ("view", b"behind it")


@pytest.mark.parametrize("raises", [False, True])
def test_take_may_enter_another_group(bus: busq.Bus, raises: bool) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        taken: list[bytes] = []
        left = [1 if raises else 0]

        def take(state: bytes) -> None:
            bob.enter("second", state=bytes, take=taken.append)
            if left[0]:
                left[0] -= 1
                raise ZeroDivisionError
            taken.append(state)

        ann.enter("first", state=lambda: b"of the first", take=len)
        ann.enter("second", state=lambda: b"of the second", take=len)
        bob.enter("first", state=bytes, take=take)
        messages: list[busq.Message] = []

        def look() -> bool:
            for peer in (ann, bob):
                with contextlib.suppress(busq.Empty, ZeroDivisionError):
                    message = peer.recv(0)
                    if peer is bob:
                        messages.append(message)
            return len(messages) == 2

        wait_until(look)
        ann.send("@first", b"one")
        ann.send("@second", b"two")
        assert [message.group for message in messages] == ["first", "second"]  # type: ignore[attr-defined]
        assert [bob.recv(10).data for _ in range(2)] == [b"one", b"two"]
        assert (taken, left) == ([b"of the first", b"of the second"], [0])


def test_what_is_held_back_and_not_acknowledged_comes_to_a_successor(bus: busq.Bus) -> None:
    with bus.join("ann") as ann:
        Log(ann).read_all()
        bob = bus.join("bob")
        Log(bob)
        for to, data in (("@log", b"one"), ("bob", b"two")):
            ann.send(to, data)
        bob.send("bob", b"three")
        with pytest.raises(busq.Empty):
            bob.recv(timeout=0, ack=True)
        bob.close()
        with bus.join("bob", resume=True) as successor:
            messages = [successor.recv(timeout=0) for _ in range(5)]
    assert [one.data for one in messages if one.kind == "data"] == [b"one", b"two", b"three"]
    assert [one.kind for one in messages if one.kind != "data"] == ["view", "view"]


@pytest.mark.parametrize("is_stated", [False, True])
def test_a_peer_that_closes_with_what_it_was_not_shown_has_a_successor(bus: busq.Bus, is_stated: bool) -> None:
    """What is held back, or waits to be shown behind the state, keeps no place in the queue of its name."""
    with bus.join("alice") as alice, bus.join("bob") as bob:
        one = Log(alice)
        bob.enter("log", state=bytes, take=lambda state: None)
        alice.send("bob", b"aside " + bytes(100_000))  # so large that a message is a view of the queue's memory
        for _ in range(3):
            bob.send("@log", bytes(100_000))
            with contextlib.suppress(busq.Empty):
                bob.recv(timeout=0)
            if is_stated:
                one.read_all()
        bob.close()
        with pytest.raises(busq.ShutDown):
            bob.recv(timeout=0)
        with bus.join("bob", resume=True) as successor:
            alice.send("bob", b"hello")
            wait_until(lambda: successor.recv(timeout=0).data == b"hello")
