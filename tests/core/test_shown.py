# SPDX-License-Identifier: Apache-2.0
"""What is shown in place is not copied, can't be written to, and stays what it was until the last view ends."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import Picture
from conftest import PATIENCE_S, Child, depth

import busq

SMALL, LARGE = 100, 200_000


def pattern(number: int, size: int = LARGE) -> bytes:
    return bytes([number % 251 + 1]) * size


class Head(ctypes.Structure):
    """The head of Py_buffer."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_char * 200))


def address_of(view: memoryview) -> int:
    """Where a view looks, as something finds out that heeds no flag."""
    head = Head()
    assert ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(head), 0) == 0
    address = head.address
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(head))
    assert address is not None
    return int(address)


def mapping_at(address: int) -> tuple[str, str]:
    """The rights and the file of the mapping there."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        begin, end = (int(part, 16) for part in fields[0].split("-"))
        if begin <= address < end:
            return fields[1], fields[5] if len(fields) > 5 else ""
    raise AssertionError("nothing is mapped there")


VIEWS: dict[str, Callable[[busq.Message], memoryview]] = {
    "view": lambda message: message.view(),
    "a slice": lambda message: message.view()[1000:],
    "object": lambda message: memoryview(message.object().content),
}


# ---- no copy ----


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("how", VIEWS)
def test_a_large_message_is_shown_where_it_is(bus: busq.Bus, how: str, ack: bool) -> None:
    """Also one that waits to be acknowledged."""
    with bus.join("ann") as ann:
        if how == "object":
            ann.send_object("ann", Picture(pattern(1)))
        else:
            ann.send("ann", pattern(1))
        message = ann.recv(ack=ack)
        view = VIEWS[how](message)
        rights, file = mapping_at(address_of(view))
        assert rights == "r--s"
        assert file.startswith(os.environ["BUSQ_DIR"])
        assert view == pattern(1)[: len(view)]
        message.ack()
        assert view == pattern(1)[: len(view)]


# ---- no writing ----


def write_into(name: str, how: str, ack: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    bus = busq.Bus.open(name)
    with bus.join("bob") as bob:
        bob.send("ann", b"ready")
        message = bob.recv(ack=ack, timeout=PATIENCE_S)
        view = VIEWS[how](message)
        bob.send("ann", b"writes")
        ctypes.memset(address_of(view), 0, 100)


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("how", VIEWS)
def test_who_writes_through_a_view_ends_and_changes_nothing(
    bus: busq.Bus, fork: Callable[..., Child], how: str, ack: bool
) -> None:
    with bus.join("ann") as ann, bus.join("cid") as cid:
        child = fork(write_into, bus.name, how, ack)
        assert ann.recv(timeout=PATIENCE_S).data == b"ready"
        if how == "object":
            ann.send_object(["bob", "cid"], Picture(pattern(1)))
        else:
            ann.send(["bob", "cid"], pattern(1))
        message = cid.recv(timeout=PATIENCE_S)
        view = VIEWS[how](message)
        assert ann.recv(timeout=PATIENCE_S).data == b"writes"
        assert os.WTERMSIG(child.wait()) == signal.SIGSEGV
        assert view == pattern(1)[: len(view)]


def test_a_draft_is_written_to(bus: busq.Bus) -> None:
    with bus.join("ann") as ann:
        with ann.reserve(LARGE) as draft:
            draft.buffer[:] = pattern(1)
            draft.send("ann")
        assert ann.recv().view() == pattern(1)


# ---- acknowledging ----


@pytest.mark.parametrize("read_first", ["nothing", "view", "view that stays", "data"])
def test_what_was_acknowledged_can_still_be_read(bus: busq.Bus, read_first: str) -> None:
    """Its place in the queue comes back with the message and the last view."""
    with bus.join("ann") as ann:
        ann.send("ann", pattern(1))
        message = ann.recv(ack=True)
        views = []
        if read_first == "view":
            message.view().release()
        elif read_first == "view that stays":
            views.append(message.view())
        elif read_first == "data":
            assert message.data == pattern(1)
        message.ack()
        message.ack()
        for number in range(10):
            ann.send("ann", pattern(2 + number))
            assert ann.recv().data == pattern(2 + number)
        views.append(message.view())
        assert message.data == pattern(1)
        views.append(message.view())
        assert all(view == pattern(1) for view in views)
        del message
        assert all(view == pattern(1) for view in views)
        for view in views:
            view.release()
        assert depth(bus, "ann") == 0
        assert bus.stats()["arena_used_bytes"] == 0


def test_views_of_one_that_is_not_acknowledged_come_and_go(bus: busq.Bus) -> None:
    with bus.join("ann", durable=True) as ann:
        ann.send("ann", pattern(1))
        message = ann.recv(ack=True)
        for _ in range(3):
            with message.view() as view:
                assert view == pattern(1)
        assert message.data == pattern(1)
        del message
    with bus.join("ann", resume=True) as ann:
        message = ann.recv(timeout=0, ack=True)
        assert (message.redelivered, message.data) == (True, pattern(1))
        message.ack()
        assert depth(bus, "ann") == 0


def test_threads_that_look_and_acknowledge_at_once(bus: busq.Bus) -> None:
    with bus.join("ann") as ann:
        for number in range(100):
            ann.send("ann", pattern(number))
            message = ann.recv(ack=True)
            together = threading.Barrier(4)
            found: list[bool] = []

            def look(
                message: Any = message, together: Any = together, found: Any = found, number: int = number
            ) -> None:
                together.wait()
                with message.view() as view:
                    found.append(view == pattern(number))
                found.append(message.data == pattern(number))

            def acknowledge(message: Any = message, together: Any = together) -> None:
                together.wait()
                message.ack()

            threads = [threading.Thread(target=target) for target in (look, look, look, acknowledge)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [True] * 6
            del message, look, acknowledge, threads
            assert depth(bus, "ann") == 0


# ---- a peer that closes ----


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("is_acked", [False, True])
def test_a_view_outlives_its_peer_and_the_successor_of_that(
    make_bus: Callable[..., busq.Bus], is_acked: bool, shared: bool
) -> None:
    """The successor receives what was not acknowledged, and its memory is used for something else."""
    bus = make_bus(arena=1 << 20)
    with bus.join("bob") as bob:
        ann = bus.join("ann", durable=True, shared=shared)
        bob.send(["ann", "bob"] if not shared else "ann", pattern(1))
        message = ann.recv(ack=True, timeout=PATIENCE_S)
        view, part = message.view(), message.view()[5000:6000]
        beside = None if shared else bob.recv(timeout=0).view()  # in the same pages
        if is_acked:
            message.ack()
        ann.close()
        with bus.join("ann", resume=True, durable=True, shared=shared) as successor:
            if not is_acked:
                again = successor.recv(timeout=PATIENCE_S, ack=True)
                assert (again.redelivered, again.data) == (True, pattern(1))
                again.ack()
                del again
            if beside is not None:
                assert beside == pattern(1)
                beside.release()
            for number in range(10):
                bob.send("ann", pattern(2 + number))
                later = successor.recv(timeout=PATIENCE_S, ack=True)
                assert later.view() == pattern(2 + number)
                later.ack()
                del later
            assert (view == pattern(1), part == pattern(1)[5000:6000]) == (True, True)
            assert message.data == pattern(1)
            del message, view, part
            bob.send("ann", bytes(1 << 20))  # all memory is there
            assert len(successor.recv(timeout=PATIENCE_S).view()) == 1 << 20


def test_what_was_neither_read_nor_acknowledged_belongs_to_the_successor(bus: busq.Bus) -> None:
    ann = bus.join("ann", durable=True)
    ann.send_many([("ann", pattern(1)), ("ann", pattern(2))])
    first, second = ann.recv_many(2, ack=True)
    assert first.data == pattern(1)
    ann.close()
    assert first.data == first.view() == pattern(1)
    for read in (lambda: second.data, second.view):
        with pytest.raises(busq.ShutDown, match=r"not read before its peer was closed.*comes to a successor"):
            read()
    with bus.join("ann", resume=True) as successor:
        assert [message.data for message in successor.recv_many(5, timeout=0)] == [pattern(1), pattern(2)]


def test_one_that_was_acknowledged_unread_is_read_after_its_peer_has_closed(bus: busq.Bus) -> None:
    ann = bus.join("ann", durable=True)
    ann.send("ann", pattern(1))
    message = ann.recv(ack=True)
    message.ack()
    ann.close()
    with bus.join("ann", resume=True) as successor:
        for number in range(5):
            successor.send("ann", pattern(2 + number))
            assert successor.recv(timeout=0).data == pattern(2 + number)
        assert message.data == pattern(1)


# ---- fork ----


def test_a_forked_child_sees_what_it_was(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("ann") as ann:
        ann.send("ann", pattern(1))
        message = ann.recv(ack=True)
        view = message.view()
        reader, writer = os.pipe()

        messages = [message]

        def look() -> tuple[bool, bool, str]:
            os.read(reader, 1)
            with messages[0].view() as another:
                is_same = another == view
            return is_same, view == pattern(1), mapping_at(address_of(view))[0]

        child = fork(look)
        message.ack()
        view.release()
        messages.clear()
        del message
        for number in range(5):
            ann.send("ann", pattern(2 + number))
            assert ann.recv(timeout=0).data == pattern(2 + number)
        os.write(writer, b"x")
        assert child.result() == (True, True, "r--p")


def test_what_a_child_receives_is_not_what_its_parent_looked_at(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """In the same memory, which the parent gives back once the child has what it looks at."""
    here, gone = os.pipe()

    def receive() -> list[bytes]:
        with bus.join("child") as child:
            os.write(gone, b"x")
            return [bytes(child.recv(timeout=PATIENCE_S).view()[:1]) for _ in range(5)]

    with bus.join("ann") as ann:
        ann.send("ann", pattern(1))
        view = ann.recv().view()
        child = fork(receive)
        os.read(here, 1)
        view.release()
        for number in range(5):
            ann.send("child", pattern(2 + number), timeout=PATIENCE_S)
        assert child.result() == [pattern(2 + number)[:1] for number in range(5)]


# ---- how much ----


def n_mappings() -> int:
    return Path("/proc/self/maps").read_text().count(os.environ["BUSQ_DIR"])


def test_there_is_one_mapping_for_all_views(bus: busq.Bus) -> None:
    peers = [bus.join(f"p{number}") for number in range(3)]
    before = n_mappings()
    peers[0].send([peer.name for peer in peers], pattern(1, mmap.PAGESIZE * 20))
    messages = [peer.recv(ack=True) for peer in peers]
    assert n_mappings() == before
    views = [message.view() for message in messages]
    assert n_mappings() == before + 1
    for peer in peers:
        peer.close()
    assert all(view == pattern(1, mmap.PAGESIZE * 20) for view in views)
    del views, messages
    assert n_mappings() <= before


@pytest.mark.parametrize("ack", [False, True])
def test_a_process_that_may_map_no_more_of_a_bus_looks_at_payloads_alone(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], ack: bool
) -> None:
    bus = make_bus(arena=1 << 30, reserve=False)

    def look() -> list[int]:
        with bus.join("ann") as ann:
            for size in (0, SMALL, LARGE):
                ann.send("ann", bytes(size))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
            resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
            messages = [ann.recv(ack=ack) for _ in range(3)]
            before = n_mappings()
            views = [message.view() for message in messages]
            sizes = [len(bytes(view)) for view in views]
            del views, messages
            assert n_mappings() == before
            return sizes

    assert fork(look).result() == [0, SMALL, LARGE]
