# SPDX-License-Identifier: Apache-2.0
"""Bad input: each with its named error, and nothing is changed by it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from conftest import PATIENCE_S, TESTS, Child, wait_until
from hypothesis import given, settings

import busq

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and mount file systems")


@pytest.fixture
def table(make_bus: Callable[..., busq.Bus]) -> Iterator[tuple[busq.Bus, busq.Peer, busq.Peer]]:
    """A bus with alice and bob, and with dead, which has left; one message waits for alice."""
    bus = make_bus(peers=4, capacity=4, arena=1 << 16)
    alice, bob = bus.join("alice"), bus.join("bob")
    bus.join("dead").close()
    bob.send("alice", b"waits")
    yield bus, alice, bob
    assert alice.recv(timeout=0).data == b"waits"
    alice.send(["alice", "bob"], b"still works", timeout=0)
    assert alice.recv(timeout=0).data == bob.recv(timeout=0).data == b"still works"


@contextlib.contextmanager
def nothing_changes(bus: busq.Bus) -> Iterator[None]:
    directory = Path(os.environ["BUSQ_DIR"])
    before = (bus.stats(), sorted(directory.iterdir()))
    yield
    assert (bus.stats(), sorted(directory.iterdir())) == before


Table = tuple[busq.Bus, busq.Peer, busq.Peer]

# ---- receivers ----

BAD_RECEIVERS = [
    ("nobody", busq.UnknownPeer, "nobody"),
    (["bob", "nobody"], busq.UnknownPeer, "nobody"),
    (["nobody", "alice", "bob"], busq.UnknownPeer, "nobody"),
    ("dead", busq.PeerDead, "dead"),
    (["bob", "dead"], busq.PeerDead, "dead"),
    (["dead", "alice", "bob"], busq.PeerDead, "dead"),
    ([], ValueError, "receiver"),
    ((), ValueError, "receiver"),
    (["bob", "bob"], ValueError, "twice"),
    (["alice", "bob", "alice"], ValueError, "twice"),
    (["alice", "bob"] * 50, ValueError, "once|twice"),
    ("", ValueError, "name"),
    ("a/b", ValueError, "/"),
    ("a\0b", ValueError, "NUL"),
    ("x" * 256, ValueError, "256"),
    ("\ud800", ValueError, "UTF-8"),
    (["bob", "\udcff"], ValueError, "UTF-8"),
    ("@group", busq.UnknownPeer, "@group"),
    (None, TypeError, "NoneType"),
    (5, TypeError, "int"),
    (b"bob", TypeError, "str"),
    (["bob", 5], TypeError, "int"),
    (["bob", None], TypeError, "NoneType"),
    ([["bob"]], TypeError, "list"),
]


@pytest.mark.parametrize(("to", "error", "word"), BAD_RECEIVERS, ids=lambda value: repr(value)[:25])
def test_bad_receivers(table: Table, to: Any, error: type[Exception], word: str) -> None:
    bus, _, bob = table
    for _ in range(2):  # what was looked up once is remembered; it must not matter
        with nothing_changes(bus):
            with pytest.raises(error, match=word):
                bob.send(to, b"x")
            with pytest.raises(error, match=word):
                bob.send(to, b"x", timeout=0)
            with pytest.raises(error, match=word):
                bob.send_many([(to, b"x"), ("bob", b"y")])


def test_a_peer_is_no_iterable_of_anything(table: Table) -> None:
    bus, alice, bob = table
    with nothing_changes(bus):
        for call in (
            lambda: bob.send(alice, b"x"),
            lambda: bob.send_many(alice),
            lambda: bob.send_many([alice]),
            lambda: bob.send("bob", b"x", handles=alice),
            lambda: bus.wait_for(alice),
            lambda: bus.join("cleo", watch=alice),
        ):
            with pytest.raises(TypeError, match="Peer: expected"):
                call()  # and alice has received nothing


def test_one_bad_receiver_after_good_ones_were_remembered(table: Table) -> None:
    bus, alice, bob = table
    bob.send(["alice", "bob"], b"remember these")
    alice.recv(), alice.recv(), bob.recv()
    bob.send("alice", b"waits")
    with nothing_changes(bus):
        for to in (["alice", "bob", "dead"], ["alice", "bob", "nobody"], ["alice", "bob", "alice"]):
            with pytest.raises((busq.PeerDead, busq.UnknownPeer, ValueError)):
                bob.send(to, b"x")


# ---- data ----


class Grumpy:
    """Iterates, but breaks off."""

    def __iter__(self) -> Iterator[str]:
        yield "alice"
        raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("data", "error", "word"),
    [
        ("text", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (5, TypeError, "int"),
        ([b"", 2], TypeError, r"data\[1\] has type int"),
        (memoryview(b"abcdef")[::2], (BufferError, ValueError, TypeError), "contiguous"),
        (memoryview(b"abcdef")[::-1], (BufferError, ValueError, TypeError), "contiguous"),
    ],
    ids=["str", "None", "int", "a part", "every other byte", "backwards"],
)
def test_bad_data(table: Table, data: Any, error: Any, word: str) -> None:
    bus, _, bob = table
    with nothing_changes(bus):
        for to in ("bob", ["alice", "bob"]):
            with pytest.raises(error, match=word):
                bob.send(to, data)
            with pytest.raises(error, match=word):
                bob.send(to, data, timeout=0)
            with pytest.raises(error, match=word):
                bob.send_many([(to, data)])


def test_bad_calls(table: Table) -> None:
    bus, alice, bob = table
    calls: list[Callable[[], Any]] = [
        lambda: bob.send(),
        lambda: bob.send("alice"),
        lambda: bob.send("alice", b"", 5),
        lambda: bob.send("alice", b"", wait=5),
        lambda: bob.send_many(),
        lambda: bob.send_many(5),
        lambda: bob.send_many([5]),
        lambda: alice.recv(1, 2),
        lambda: alice.recv(wait=1),
        lambda: alice.recv_many(),
        lambda: alice.recv_many(1, 2, 3),
    ]
    with nothing_changes(bus):
        for call in calls:
            with pytest.raises(TypeError):
                call()
        for wrong in ([("alice",)], [("alice", b"x", 3)]):
            with pytest.raises((TypeError, ValueError)):
                bob.send_many(wrong)
        with pytest.raises(RuntimeError, match="no more"):
            bob.send(Grumpy(), b"x")


# ---- wrong arguments, and their errors ----

INTERNAL = re.compile(
    r"_slow|Port|_Python|_core|_fast|cdata|ctype|cffi|initializer|an integer is required|float\(\) arg|unpack"
)


@pytest.fixture(params=["bus1", "fifo"])
def callables(request: pytest.FixtureRequest, make_bus: Callable[..., busq.Bus]) -> dict[str, Callable[..., Any]]:
    """What is public and takes arguments, by the name that its errors call it; of both kinds of peers."""
    bus = make_bus(peers=2, capacity=4, order=request.param)
    peer = bus.join("bob")
    peer_methods = ("send", "send_many", "recv", "recv_many", "close", "fileno")
    found: dict[str, Callable[..., Any]] = {
        f"{type(peer).__name__}.{name}": getattr(peer, name) for name in peer_methods
    }
    bus_methods = (
        "create",
        "open",
        "unlink",
        "join",
        "remove",
        "peers",
        "stats",
        "repair",
        "collect",
        "shutdown",
    )
    return found | {f"Bus.{name}": getattr(bus, name) for name in bus_methods}


WRONG_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("send", (), {}, "'to' and 'data'"),
    ("send", ("bob",), {}, "'data'"),
    ("send", ("bob", b"", 5), {}, "3 positional arguments but 4"),
    ("send", ("bob", b""), {"wait": 5}, "'wait'"),
    ("send", ("bob", b""), {"data": b""}, "'data'"),
    ("send", ("bob",), {"dat": b""}, "'dat'"),
    ("send_many", (), {}, "'messages'"),
    ("send_many", ([], 1), {}, "2 positional arguments but 3"),
    ("send_many", ([],), {"time": 1}, "'time'"),
    ("recv", (1, True), {}, "positional arguments but 3"),
    ("recv", (), {"wait": 1}, "'wait'"),
    ("recv", (1,), {"timeout": 1}, "'timeout'"),
    ("recv_many", (), {}, "'limit'"),
    ("recv_many", (1, 2, 3), {}, "positional arguments but 4"),
    ("recv_many", (1,), {"acks": True}, "'acks'"),
    ("recv_many", (1,), {"limit": 1}, "'limit'"),
    ("close", (1,), {}, "1 positional argument but 2"),
    ("fileno", (1,), {}, "1 positional argument but 2"),
    ("create", (), {}, "'name'"),
    ("create", ("x", "bus1"), {}, "2 positional arguments but 3"),
    ("create", ("x",), {"colour": "red"}, "'colour'"),
    ("open", (), {}, "'name'"),
    ("open", ("x",), {"create": True}, "'create'"),
    ("unlink", (), {}, "'name'"),
    ("unlink", ("x", "y"), {}, "1 positional argument but 2"),
    ("join", (), {}, "'name'"),
    ("join", ("x", True), {}, "2 positional arguments but 3"),
    ("join", ("x",), {"resum": True}, "'resum'"),
    ("remove", (), {}, "'name'"),
    *((name, (1,), {}, "1 positional argument but 2") for name in ("peers", "stats", "repair", "collect", "shutdown")),
]


@pytest.mark.parametrize(("method", "arguments", "options", "words"), WRONG_CALLS, ids=str)
def test_a_call_that_does_not_fit_is_told_by_the_name_that_was_called(
    callables: dict[str, Callable[..., Any]],
    method: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    words: str,
) -> None:
    [(name, call)] = [known for known in callables.items() if known[0].endswith(f".{method}")]
    with pytest.raises(TypeError) as caught:
        call(*arguments, **options)
    said = str(caught.value)
    assert said.startswith(f"{name}() ")
    assert words in said
    assert not INTERNAL.search(said)


NOT_TEXT = [None, 5, 1.5, True, b"bytes", [], {}, object()]
NOT_BYTES = [None, 5, 1.5, True, "text", {}, object()]
NOT_WHOLE = [None, 1.5, "8", b"8", [], {}, object()]
NOT_SECONDS = ["soon", "5", b"5", [], {}, object()]
NOT_BOOL = ["yes", 1, 0, None, [], object()]

WRONG_TYPES: list[tuple[str, str, Callable[[Any, Any], Any], list[Any]]] = [
    ("send", "to", lambda send, value: send(value, b""), [None, 5, 1.5, True, b"bob", bytearray(b"bob"), object()]),
    ("send", "a receiver (to)", lambda send, value: send(["bob", value], b""), NOT_TEXT),
    ("send", "a receiver (to)", lambda send, value: send((value,), b""), NOT_TEXT),
    ("send", "data", lambda send, value: send("bob", value), NOT_BYTES),
    ("send", "timeout", lambda send, value: send("bob", b"", timeout=value), NOT_SECONDS),
    ("send_many", "messages", lambda send_many, value: send_many(value), [None, 5, 1.5, True, object()]),
    ("send_many", "messages[0]", lambda send_many, value: send_many([value]), [None, 5, 1.5, True, object()]),
    ("send_many", "a receiver (to)", lambda send_many, value: send_many([([value], b"")]), NOT_TEXT),
    ("send_many", "data", lambda send_many, value: send_many([("bob", value)]), NOT_BYTES),
    ("send_many", "timeout", lambda send_many, value: send_many([], timeout=value), NOT_SECONDS),
    ("recv", "timeout", lambda recv, value: recv(value), NOT_SECONDS),
    ("recv", "timeout", lambda recv, value: recv(timeout=value), NOT_SECONDS),
    ("recv_many", "limit", lambda recv_many, value: recv_many(value), NOT_WHOLE),
    ("recv_many", "timeout", lambda recv_many, value: recv_many(1, value), NOT_SECONDS),
    ("recv", "ack", lambda recv, value: recv(0, ack=value), NOT_BOOL),
    ("recv_many", "ack", lambda recv_many, value: recv_many(1, 0, ack=value), NOT_BOOL),
    ("create", "name", lambda create, value: create(value), NOT_TEXT),
    ("create", "order", lambda create, value: create("x", order=value), NOT_TEXT),
    ("create", "peers", lambda create, value: create("x", peers=value), NOT_WHOLE),
    ("create", "capacity", lambda create, value: create("x", capacity=value), NOT_WHOLE),
    ("create", "arena", lambda create, value: create("x", arena=value), NOT_WHOLE),
    ("create", "permissions", lambda create, value: create("x", permissions=value), NOT_WHOLE),
    ("open", "name", lambda open_it, value: open_it(value), NOT_TEXT),
    ("unlink", "name", lambda unlink, value: unlink(value), NOT_TEXT),
    ("join", "name", lambda join, value: join(value), NOT_TEXT),
    ("remove", "name", lambda remove, value: remove(value), NOT_TEXT),
]


@pytest.mark.parametrize(
    ("method", "argument", "call", "values"),
    WRONG_TYPES,
    ids=[f"{method} {argument}" for method, argument, *_ in WRONG_TYPES],
)
def test_a_wrong_type_is_told_with_the_argument_what_was_found_and_what_was_expected(
    callables: dict[str, Callable[..., Any]],
    method: str,
    argument: str,
    call: Callable[[Any, Any], Any],
    values: list[Any],
) -> None:
    [found] = [known for name, known in callables.items() if name.endswith(f".{method}")]
    for value in values:
        with pytest.raises(TypeError) as caught:
            call(found, value)
        said = str(caught.value)
        assert said.startswith(f"{argument} has type {type(value).__name__}: expected ")
        assert not INTERNAL.search(said)


@pytest.mark.parametrize("argument", ["peers", "capacity", "arena", "permissions"])
@pytest.mark.parametrize("value", [-1, 1 << 80])
def test_a_number_that_is_no_size_is_told_with_the_argument(bus_name: str, argument: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{argument} is {value}: expected a whole number, 0 or more and below"):
        busq.Bus.create(bus_name, **{argument: value})


@pytest.mark.parametrize("wrong", [[5], [("bob",)], [("bob", b"x", 3)], ["bob"]], ids=str)
def test_a_message_that_is_no_pair_is_told_with_its_place(table: Table, wrong: list[Any]) -> None:
    _, _, bob = table
    with pytest.raises((TypeError, ValueError), match=r"messages\[1\] has .*: expected a pair \(to, data\)"):
        bob.send_many([("bob", b"good"), *wrong])
    assert bob.recv(timeout=0).data == b"good"


def test_what_only_the_library_makes_says_where_to_get_it() -> None:
    made: dict[Any, str] = {
        busq.Bus: r"`Bus.create` or, .* `Bus.open`",
        busq.Peer: "a Peer is made by joining a bus: call `Bus.join`",
        busq.Message: "a Message is made by receiving: call `recv`",
        busq.Draft: "a Draft is made by reserving memory for a message: call `reserve`",
    }
    for kind, text in made.items():
        for values, named in [((), {}), (("x",), {}), ((5, "x", "y"), {}), ((), {"name": "x"})]:
            with pytest.raises(TypeError, match=text):
                kind(*values, **named)


# ---- time and numbers ----


@pytest.mark.parametrize("timeout", [-1, -0.001, -math.inf, math.nan, [], "soon"])
def test_bad_timeouts(table: Table, timeout: Any) -> None:
    """Also where no waiting would be needed: a message is there, and there is room."""
    bus, alice, bob = table
    calls: list[Callable[[], Any]] = [
        lambda: alice.recv(timeout),
        lambda: alice.recv(timeout=timeout),
        lambda: alice.recv_many(5, timeout),
        lambda: alice.recv_many(5, timeout=timeout),
        lambda: bob.send("bob", b"x", timeout=timeout),
        lambda: bob.send(["alice", "bob"], b"x", timeout=timeout),
        lambda: bob.send_many([("bob", b"x")], timeout=timeout),
        lambda: bob.send_many([], timeout=timeout),
    ]
    expected = ValueError if isinstance(timeout, float | int) else (TypeError, ValueError)
    for call in calls:
        with nothing_changes(bus), pytest.raises(expected):
            call()


@pytest.mark.parametrize("limit", [0, -1, -(1 << 70), 1.0, None, "1", [], math.nan])
def test_bad_limits(table: Table, limit: Any) -> None:
    bus, alice, _ = table
    for call in (lambda: alice.recv_many(limit), lambda: alice.recv_many(limit, timeout=0)):
        with nothing_changes(bus), pytest.raises((ValueError, TypeError)):
            call()


def test_limits_are_whole_numbers_of_any_type(table: Table) -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    _, alice, bob = table
    for limit in (Two(), True, 1 << 70):
        assert len(alice.recv_many(limit)) == 1
        bob.send("alice", b"waits")


# ---- names ----

BAD_PEER_NAMES = ["", "a/b", "/", "a\0b", "\0", "x" * 256, "é" * 128, "\ud800", "a\udc80", "@", "@group"]


@pytest.mark.parametrize("name", BAD_PEER_NAMES, ids=lambda name: ascii(name)[:20])
def test_bad_peer_names(table: Table, name: str) -> None:
    bus, _, _ = table
    with nothing_changes(bus), pytest.raises(ValueError):
        bus.join(name)


@pytest.mark.parametrize("name", [None, 5, b"bytes", ["a"]])
def test_a_name_that_is_no_text(table: Table, name: Any) -> None:
    bus, _, _ = table
    with nothing_changes(bus):
        for call in (
            lambda: bus.join(name),
            lambda: busq.Bus.create(name),
            lambda: busq.Bus.open(name),
            lambda: busq.Bus.unlink(name),
        ):
            with pytest.raises(TypeError):
                call()


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "../x", "a\0b", ".", "..", ".hidden", "x" * 201, "x" * 256, "é" * 101, "\ud800"],
    ids=lambda name: ascii(name)[:20],
)
def test_bad_bus_names(table: Table, name: str) -> None:
    bus, _, _ = table
    with nothing_changes(bus):
        for call in (busq.Bus.create, busq.Bus.open, busq.Bus.unlink):
            with pytest.raises(ValueError):
                call(name)


def test_any_text_is_a_name_or_a_value_error(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)

    @settings(max_examples=300)
    @given(name=st.one_of(st.text(), st.text(st.characters(), min_size=200, max_size=300)))
    def check(name: str) -> None:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            encoded = b""
        is_good = 1 <= len(encoded) <= 255 and not set(name) & {"\0", "/"} and not name.startswith("@")
        try:
            with bus.join(name) as peer:
                assert is_good
                assert bus.peers() == [name] == [peer.name]
        except ValueError:
            assert not is_good

    check()


# ---- creating ----


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"peers": 0}, ValueError),
        ({"peers": -1}, ValueError),
        ({"peers": 4097}, ValueError),
        ({"peers": 1 << 40}, ValueError),
        ({"peers": 1.5}, TypeError),
        ({"peers": "8"}, TypeError),
        ({"capacity": 0}, ValueError),
        ({"capacity": -1}, ValueError),
        ({"capacity": 1 << 40}, ValueError),
        ({"capacity": None}, TypeError),
        ({"arena": 0}, ValueError),
        ({"arena": -1}, ValueError),
        ({"arena": 1 << 60}, ValueError),
        ({"arena": 1 << 80}, ValueError),
        ({"permissions": 0}, ValueError),
        ({"permissions": 0o666}, ValueError),
        ({"permissions": 0o644}, ValueError),
        ({"permissions": 0o4600}, ValueError),
        ({"permissions": -1}, ValueError),
        ({"order": "fastest"}, ValueError),
        ({"order": None}, (ValueError, TypeError)),
        ({"colour": "red"}, TypeError),
    ],
    ids=str,
)
def test_bad_configurations(bus_name: str, config: dict[str, Any], error: Any) -> None:
    before = sorted(Path(os.environ["BUSQ_DIR"]).iterdir())
    with pytest.raises(error):
        busq.Bus.create(bus_name, **config)
    assert sorted(Path(os.environ["BUSQ_DIR"]).iterdir()) == before


def test_extreme_configurations_that_are_allowed(bus_name: str) -> None:
    for config in ({"peers": 1, "capacity": 1, "arena": 4096}, {"peers": 4096, "capacity": 1, "arena": 4096}):
        with busq.Bus.create(bus_name, **config) as bus, bus.join("alice") as alice:
            alice.send("alice", b"x" * 4096, timeout=0)
            assert alice.recv(timeout=0).data == b"x" * 4096
        busq.Bus.unlink(bus_name)


# ---- the directory and what is in it ----


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of buses of this test alone, not in memory, with one bus, "good", in it."""
    path = tmp_path / "buses"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("BUSQ_DIR", str(path))
    busq.Bus.create("good", peers=2, capacity=4, arena=4096).close()
    return path


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_missing_directory_is_not_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSQ_DIR", str(place / "nothing here"))
    for call in (busq.Bus.create, busq.Bus.open, busq.Bus.unlink):
        with pytest.raises(FileNotFoundError):
            call("x")
    assert not (place / "nothing here").exists()


def test_a_file_in_place_of_the_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSQ_DIR", str(place / "good"))
    for call in (busq.Bus.create, busq.Bus.open, busq.Bus.unlink):
        with pytest.raises(OSError, match="directory"):
            call("x")


def test_a_directory_that_everybody_can_write_to_is_denied(place: Path) -> None:
    place.chmod(0o777)
    for call in (busq.Bus.create, busq.Bus.open, busq.Bus.unlink):
        with pytest.raises(PermissionError, match="777"):
            call("good")
    assert names_in(place) == ["good"]
    place.chmod(0o700)
    busq.Bus.open("good").close()


def test_a_directory_behind_a_symbolic_link_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    monkeypatch.setenv("BUSQ_DIR", str(link))
    for call in (busq.Bus.create, busq.Bus.open, busq.Bus.unlink):
        with pytest.raises(OSError):
            call("good")
    assert names_in(place) == ["good"]


@is_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_somebody_elses_directory_is_denied(place: Path, mode: int) -> None:
    """Its owner could replace a bus in it at any time."""
    place.chmod(mode)
    os.chown(place, 12345, 12345)
    for call in (busq.Bus.create, busq.Bus.open):
        with pytest.raises(PermissionError):
            call("good")


@pytest.mark.parametrize("target", ["good", "missing", "/dev/zero"])
def test_a_symbolic_link_is_not_followed(place: Path, target: str) -> None:
    link = place / "link"
    link.symlink_to(target)
    before = (place / "good").read_bytes()
    with pytest.raises(PermissionError, match="symbolic link"):
        busq.Bus.open("link")
    with pytest.raises(FileExistsError):
        busq.Bus.create("link")
    with pytest.raises(PermissionError, match="symbolic link"):
        busq.Bus.create("link", exist_ok=True)
    busq.Bus.unlink("link")
    assert names_in(place) == ["good"]
    assert (place / "good").read_bytes() == before


def test_a_fifo_in_its_place_is_no_bus(place: Path) -> None:
    os.mkfifo(place / "fifo", 0o600)
    with pytest.raises(busq.CorruptSegment, match="fifo"):
        busq.Bus.open("fifo")
    with pytest.raises(FileExistsError):
        busq.Bus.create("fifo")
    assert names_in(place) == ["fifo", "good"]


def test_a_directory_in_its_place_is_no_bus(place: Path) -> None:
    (place / "folder").mkdir()
    with pytest.raises(busq.CorruptSegment, match="folder"):
        busq.Bus.open("folder")
    with pytest.raises(FileExistsError):
        busq.Bus.create("folder")
    with pytest.raises(OSError):
        busq.Bus.unlink("folder")
    assert names_in(place) == ["folder", "good"]


@is_root
def test_somebody_elses_file_is_denied(place: Path) -> None:
    os.chown(place / "good", 12345, 12345)
    before = (place / "good").read_bytes()
    with pytest.raises(PermissionError, match="12345"):
        busq.Bus.open("good")
    with pytest.raises(PermissionError, match="12345"):
        busq.Bus.create("good", exist_ok=True)
    with pytest.raises(FileExistsError):
        busq.Bus.create("good")
    assert (place / "good").read_bytes() == before


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o604, 0o777])
def test_a_file_that_is_open_to_everybody_is_denied(place: Path, mode: int) -> None:
    (place / "good").chmod(mode)
    with pytest.raises(PermissionError, match=f"{mode:o}"):
        busq.Bus.open("good")


@is_root
def test_another_user_gets_permission_error(monkeypatch: pytest.MonkeyPatch, fork: Callable[..., Child]) -> None:
    """Bus, file and directory belong to root; the directory can be looked into."""

    def nobody() -> list[str]:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        answers = []
        for call, name in ((busq.Bus.open, "good"), (busq.Bus.create, "other"), (busq.Bus.unlink, "good")):
            try:
                call(name)
                answers.append("done")
            except PermissionError:
                answers.append("denied")
        return answers

    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.chmod(directory, 0o755)
        monkeypatch.setenv("BUSQ_DIR", directory)
        busq.Bus.create("good", peers=2, capacity=4, arena=4096).close()
        assert fork(nobody).result() == ["denied"] * 3
        assert os.listdir(directory) == ["good"]
        busq.Bus.open("good").close()


# ---- no room ----

FULL = """
import busq, errno, os, sys
directory = os.environ["BUSQ_DIR"]
def refused(**config):
    try: busq.Bus.create("large", **config)
    except busq.NoSpace as error:
        assert isinstance(error, OSError) and error.errno == errno.ENOSPC and directory in str(error), error
        return True
assert refused(), "16 MiB do not fit into 1"
assert os.listdir(directory) == []
with busq.Bus.create("small", peers=4, capacity=16, arena=256 << 10) as bus:
    # Now somebody else fills what is left, to the last page.
    with open(directory + "/filler", "wb", buffering=0) as filler:
        try:
            while True: filler.write(b"x" * 4096)
        except OSError as error: assert error.errno == errno.ENOSPC
    assert refused(peers=1, capacity=1, arena=4096)
    assert sorted(os.listdir(directory)) == ["filler", "small"]
    # Everything was reserved: each page of the bus can be written.
    alice, bob = bus.join("alice"), bus.join("bob")
    for size in (0, 100, 5000, 256 << 10):
        sent = 0
        try:
            while True:
                alice.send(["alice", "bob"], b"m" * size, timeout=0)
                sent += 1
        except busq.Full: assert sent > 0
        for peer in (alice, bob):
            for _ in range(sent): assert peer.recv(timeout=0).data == b"m" * size
print("survived")
"""


def in_small_file_system(path: Path, options: str, code: str) -> str:
    """Run code with a tmpfs of its own as the directory of buses, in a mount namespace that goes with it."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"):
        pytest.skip("needs root, unshare and mount")
    directory = path / "small"
    directory.mkdir()
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" || exit 77; exec "$3" -c "$4"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", options, str(directory), sys.executable, code]
    done = subprocess.run(
        command,
        cwd=TESTS,
        env=os.environ | {"BUSQ_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode == 77 or (done.returncode == 1 and "unshare" in done.stderr):
        pytest.skip(f"can't mount here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert list(directory.iterdir()) == []
    return done.stdout


def test_a_full_file_system_is_no_space_at_creation_and_never_a_bus_error_later(tmp_path: Path) -> None:
    assert in_small_file_system(tmp_path, "size=1m,mode=0700", FULL) == "survived\n"


MANY = """
import subprocess, sys, busq
queues = [busq.Queue() for _ in range(200)]
for number, queue in enumerate(queues): queue.put(number)
if len(sys.argv) == 1:
    print(subprocess.run([*sys.orig_argv, "second"], capture_output=True, text=True).stdout, end="")
assert [queue.get() for queue in queues] == list(range(200))
print("all of 200")
"""


def test_two_programs_with_many_queues_share_a_small_file_system(tmp_path: Path) -> None:
    assert in_small_file_system(tmp_path, "size=64m,mode=0700", MANY) == "all of 200\n" * 2


LATE = """
import os, busq
directory = os.environ["BUSQ_DIR"]
queue = busq.Queue()
small, large = bytes(3 << 20), bytes(64 << 20)
for _ in range(3):
    queue.put(small)
    assert queue.get() == small
try: queue.put(large)
except busq.NoSpace: print("no space for what never fits")
bus = busq.Bus.create("late", arena=1 << 30, reserve=False)
alice, bob = bus.join("alice"), bus.join("bob")
alice.send("bob", b"first"), bob.recv(timeout=0)  # so bob's queue has memory
with open(directory + "/fills", "wb", buffering=0) as file:
    try:
        while file.write(bytes(65536)): pass
    except OSError: pass
try: bus.join("carol")
except busq.NoSpace: print("no space for a peer")
for size in (10, 1000, 20000):
    sent = 0
    try:
        while True:
            alice.send("bob", b"m" * size, timeout=0)
            sent += 1
    except busq.Full: assert sent > 0
    for _ in range(sent): assert bob.recv(timeout=0).data == b"m" * size
try: alice.send("bob", large, timeout=0)
except busq.NoSpace: print("no space for a message")
for number in range(5000):
    queue.put(number)
assert [queue.get() for _ in range(5000)] == list(range(5000))
queue.put(small)
assert queue.get() == small
os.remove(directory + "/fills")
bus.join("carol")
alice.send("bob", small, timeout=0)
assert bob.recv(timeout=0).data == small
busq.Bus.unlink("late")
print("survived")
"""


def test_memory_that_is_reserved_late_is_no_space_where_it_is_needed_and_never_a_bus_error(tmp_path: Path) -> None:
    said = in_small_file_system(tmp_path, "size=12m,mode=0700", LATE).splitlines()
    assert said == [
        "no space for what never fits",
        "no space for a peer",
        "no space for a message",
        "survived",
    ]


SHORT = """
import os, random, signal, busq
directory = os.environ["BUSQ_DIR"]
seed = int(os.environ.get("BUSQ_TEST_SEED") or random.randrange(1 << 32))
print(f"BUSQ_TEST_SEED={seed}", flush=True)
chance = random.Random(seed)
COUNT = 3500
queue, go, results = busq.Queue(), os.pipe(), os.pipe()
queue.put(None), queue.get()  # so this process has memory, too

def child(body):
    ready = os.pipe()
    pid = os.fork()
    if not pid:
        try: body(lambda: (os.write(ready[1], b"r"), os.read(go[0], 1)))
        finally: os._exit(0)
    os.read(ready[0], 1)
    return pid

def putter(who):
    def body(wait):
        queue.put((who, 0))
        wait()
        for number in range(1, COUNT): queue.put((who, number))
        queue.close()
        queue.join_thread()
    return body

def getter(who):
    def body(wait):
        item = queue.get()  # it has memory from now on, as a putter from its first object
        wait()
        while item is not None:
            os.write(results[1], b"%d %d %d\\n" % (who, *item))
            item = queue.get()
    return body

putters = [child(putter(who)) for who in range(4)]
getters = [child(getter(who)) for who in range(4)]
bus = next(name for name in os.listdir(directory) if os.path.getsize(directory + "/" + name) > 1 << 20)
def used(): return os.stat(directory + "/" + bus).st_blocks * 512
with open(directory + "/fills", "wb", buffering=0) as file:
    for step in 65536, 4096:
        try:
            while file.write(bytes(step)): pass
        except OSError: pass
full = used()
for _ in putters + getters: os.write(go[1], b"g")
lines = os.fdopen(results[0])
got = [[int(word) for word in lines.readline().split()] for _ in range(chance.randrange(1, COUNT))]
os.kill(getters[0], signal.SIGKILL)
got += [[int(word) for word in lines.readline().split()] for _ in range(chance.randrange(1, COUNT))]
os.kill(putters[0], signal.SIGKILL)
def ended(pids):
    return [os.waitpid(pid, 0)[1] for pid in pids]
def read_on():  # or a getter might wait for room in the pipe
    while line := lines.readline(): got.append([int(word) for word in line.split()])
import threading
reader = threading.Thread(target=read_on, daemon=True)
reader.start()
first, *others = ended(putters)
assert first in (signal.SIGKILL, 0) and others == [0, 0, 0], (first, others)  # it may have put all before
for _ in getters: queue.put(None)
assert ended(getters[1:]) == [0, 0, 0], "a getter"
os.close(results[1])
reader.join()
assert ended(getters[:1]) == [signal.SIGKILL]
assert used() == full, (used(), full)
pairs = [(put, number) for _, put, number in got]
assert len(set(pairs)) == len(pairs), "doubled"
for getting in range(4):
    for putting in range(4):
        numbers = [number for get, put, number in got if (get, put) == (getting, putting)]
        assert numbers == sorted(numbers), (getting, putting)
killed = {number for put, number in pairs if put == 0}
missing = {(put, number) for put in range(1, 4) for number in range(COUNT)} - set(pairs)
missing |= {(0, number) for number in range(max(killed, default=0))} - set(pairs)
assert len(missing) <= 1, missing  # what the killed one had got
while not queue.empty(): assert queue.get() is None  # for the killed getter
os.remove(directory + "/fills")
for number in range(COUNT): queue.put(number)
assert used() >= full + 60 * 1024, (used(), full)
assert [queue.get() for _ in range(COUNT)] == list(range(COUNT))
print("all came")
"""


def test_a_queue_on_a_full_file_system_goes_on_and_takes_more_when_there_is_some(tmp_path: Path) -> None:
    said = in_small_file_system(tmp_path, "size=12m,mode=0700", SHORT)
    assert said.splitlines()[1:] == ["all came"], said


def test_a_file_system_without_inodes_is_no_space(tmp_path: Path) -> None:
    code = "import busq\ntry: busq.Bus.create('x', arena=4096)\nexcept busq.NoSpace: print('no space')"
    assert in_small_file_system(tmp_path, "size=1m,nr_inodes=1,mode=0700", code) == "no space\n"


def lowest_free_descriptor() -> int:
    found = os.dup(0)
    os.close(found)
    return found


@pytest.mark.parametrize("limit", ["file size", "address space", "descriptors"])
def test_limits_of_the_process_are_named_and_leave_nothing(
    bus: busq.Bus, bus_name: str, bus_directory: Path, fork: Callable[..., Child], limit: str
) -> None:
    before = names_in(bus_directory)

    def child() -> list[str]:
        answers = []
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        kind, value = {
            "file size": (resource.RLIMIT_FSIZE, 1 << 20),
            "address space": (resource.RLIMIT_AS, used + (64 << 20)),
            "descriptors": (resource.RLIMIT_NOFILE, lowest_free_descriptor()),
        }[limit]
        mine = busq.Bus.open(bus.name)
        resource.setrlimit(kind, (value, value))
        for call in (lambda: busq.Bus.create(f"{bus_name}-large", arena=256 << 20), lambda: mine.join("child")):
            try:
                call()
                answers.append("done")
            except OSError as error:
                advice = " ulimit -f" if "ulimit -f" in str(error) else ""
                answers.append(f"{type(error).__name__} {errno.errorcode[error.errno]}{advice}")
        return answers

    answers = fork(child).result()
    if limit == "file size":
        assert answers == ["NoSpace EFBIG ulimit -f", "done"]
    elif limit == "address space":
        assert answers == ["NoSpace ENOMEM", "done"]
    else:
        assert answers == ["OSError EMFILE", "OSError EMFILE"]
    assert names_in(bus_directory) == before
    wait_until(lambda: bus.peers() == [])


@pytest.mark.parametrize("method", ["send_many", "recv", "recv_many", "ask", "reserve"])
def test_an_argument_without_a_name_is_refused(table: tuple[busq.Bus, busq.Peer, busq.Peer], method: str) -> None:
    _, alice, _ = table
    given: dict[str, tuple[Any, ...]] = {"send_many": ([],), "recv": (0,), "recv_many": (1,), "ask": ("bob", b"")}
    with pytest.raises(TypeError, match="unexpected keyword argument ''"):
        getattr(alice, method)(*given.get(method, (5,)), **{"": 1})
