# SPDX-License-Identifier: Apache-2.0
"""What keeps one replica alike: its peer, the thread that applies, and whoever waits for that.

One thread of each replica receives and applies, and nobody else does: others' queues do not fill while the owner is
busy elsewhere, and no handler of a signal, which Python runs in the main thread, can strike in the middle of a command
and leave a replica that is half changed.  A call sends its command to the group and sleeps until the thread has applied
it.

Messages, all of them of the replica's own peer.  To the group, numbered by busq/_state/transfer.py:

    C number(8) calls         commands; the number is the sender's, which waits for their results
    W | N view(8)             "settled" | "needy", see busq/_state/transfer.py
    D position(8) digest      what the sender's state comes to there; see busq/_state/verify.py
    T position(8) digests     the same after each command since the last place at which all agreed

To one replica:

    S view(8) index(8) part(4) parts(4) bytes    a piece of a state
    A view(8) index(8) part(4)                   that piece has come: only so many are on their way
    R text                                       the state can't be given
    M number(8)                                  to itself: what was finished anywhere before has come before this

What is none of these is passed over, and so is C of who is no member, where it can't be read.  C of a member that can't
be read here ends this replica, since others may have applied it.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from busq import errors
from busq._port import core as _core
from busq._state.chunks import Gift, Pieces, answer, piece_bytes
from busq._state.plain_codec import PLAIN, name_of
from busq._state.transfer import Begin, Deliver, Effect, Give, Say, Take, Transfer
from busq._state.verify import Verifier

_LIMIT = 256  # messages that are applied before readers get a turn
_RETRY_S = 0.001
_NUMBER = struct.Struct("<cQ")
_HEAD = struct.Struct("<I")
_DATA = frozenset(b"CWNDT")

_C, _W, _N, _D, _T, _S, _A, _R, _M = b"CWNDTSARM"

_running: weakref.WeakSet[Engine] = weakref.WeakSet()
_appliers: set[int] = set()  # threads that apply
os.register_at_fork(after_in_child=_appliers.clear)  # a thread of the child may get the number of one of them


class Call:
    """Something that somebody waits for; `then`, if given, is called when it is there, in the thread that applies."""

    __slots__ = ("_lock", "error", "is_done", "results", "then")

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.results: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.then = then
        self._lock = threading.Lock()
        self._lock.acquire()

    def finish(self, results: Any = None, error: BaseException | None = None) -> None:
        """Let whoever waits go on."""
        if self.is_done:
            return
        self.results, self.error, self.is_done = results, error, True
        self._lock.release()
        if self.then is not None:
            self.then()

    def wait(self, left_ns: int = -1) -> bool:
        """Sleep until it is done; is it?"""
        if not self.is_done and self._lock.acquire(timeout=-1 if left_ns < 0 else left_ns / 1e9):
            self._lock.release()
        return self.is_done


class Engine:
    """Of one replica.  It knows the replica weakly, so that one that is forgotten is closed."""

    def __init__(self, replica: Any, bus: Any, group: str, member: str, codec: Any, verify: int) -> None:
        self._replica = weakref.ref(replica)
        self.commands = replica._busq_commands
        self.names = self.commands.names
        self.codec = codec
        self._encode_calls = codec.encode_calls if codec is PLAIN else self.encode
        self.group = group
        self._to = f"@{group}"
        self._header = struct.Struct("<cQ").pack
        self._pid = os.getpid()
        self._piece_bytes = piece_bytes(bus._raw())
        self.member = member
        self.own_bus: Any = None  # one that was opened for this replica
        # A thread that looked again and again before it slept would hold the interpreter back from its owner.
        self.peer = bus.join(member, spin_us=0)
        self.transfer = Transfer(member)
        self.position = 0
        self.members: tuple[str, ...] = ()
        self.ready = Call()  # done when the state is there
        self._verifier = Verifier(self, verify) if verify else None
        self._numbers = itertools.count(1)
        self._pending: dict[int, Call] = {}
        self._waiters: dict[Call, Callable[[], Any]] = {}
        self._words: deque[bytes] = deque()  # to the group
        self._letters: dict[str, deque[bytes]] = {}  # to single replicas
        self._gifts: dict[str, Gift] = {}
        self._pieces = Pieces()
        self.failure: BaseException | None = None
        # Readers come first in a row of their own, or a busy thread would take the lock again before they wake.
        self._row, self._still = threading.Lock(), threading.Lock()
        self._reader = 0  # the thread that holds it
        self._is_applying = False
        self._thread = threading.Thread(target=self._run, name=f"busq replica {member}", daemon=True)
        _running.add(self)

    def encode(self, obj: Any) -> bytes:
        """Return the bytes that the codec makes of it."""
        made = self.codec.encode(obj)
        return made if isinstance(made, bytes) else b"".join(made if isinstance(made, list | tuple) else (made,))

    # ---- its life ----

    def start(self, timeout: float | None) -> None:
        """Enter the group, and return when the state is there."""
        deadline = _core.Deadline(timeout)
        self._thread.start()
        self.peer.enter(self.group, timeout=timeout)
        if not self.ready.wait(deadline.left_ns()):
            raise errors.Empty(
                f"no state of {self.group!r} came before the timeout: the member that is to give it may be stopped, or "
                f"be no replica"
            )
        if self.ready.error is not None:
            raise self.ready.error

    def close(self) -> None:
        """Leave, and end the thread."""
        self._fail(errors.ShutDown("this replica was closed"))
        self.peer.close()
        if self._pid == os.getpid() and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        if self.own_bus is not None:
            self.own_bus.close()
        _running.discard(self)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        for call in [self.ready, *self._pending.values(), *self._waiters]:
            call.finish(error=self.failure)

    def check(self) -> None:
        """Raise unless this replica is in use, here."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        self.check_process()

    def check_process(self) -> None:
        """Raise in a forked child."""
        if self._pid != os.getpid():
            raise errors.ForkedHandle(
                "this replica belongs to the parent process: open the bus and join again in the child"
            )

    # ---- calls, in any thread ----

    @property
    def is_here(self) -> bool:
        """Does a command run, and call another one, which is then a part of it?"""
        if threading.get_ident() != self._thread.ident:
            return False
        if not self._is_applying:
            raise RuntimeError("a command was called by what waits for the state: only a command may change it")
        return True

    def begin(self, calls: Any, call: Call, timeout: float | None = None) -> int:
        """Send commands as one message; returns the number of their call.  Whatever comes, `end` has to follow."""
        self._check_caller()
        body = self._encode_calls(calls)
        if self.codec is not PLAIN:
            self.codec.decode(memoryview(body))  # what nobody can read is refused here, before it is sent
        return self._post(b"C", self._to, body, call, timeout)

    def _post(self, kind: bytes, to: str, body: Any, call: Call, timeout: float | None) -> int:
        number = next(self._numbers)
        try:
            self._pending[number] = call
            self.check()  # after that: one that fails finishes what it finds here
            head = self._header(kind, number)
            self.peer.send(to, head + body if len(body) < 4096 else [head, body], timeout=timeout)
            return number
        except BaseException as error:
            self._pending.pop(number, None)
            if isinstance(error, errors.ShutDown):
                self.check()  # the thread may have ended for another reason, and closed the peer
            raise

    def end(self, number: int) -> None:
        """Wait no more."""
        self._pending.pop(number, None)

    def give_up(self, calls: Any) -> Any:
        """Have commands applied everywhere; returns what they returned here, None if that waits for room."""
        try:
            return self.call(calls, 0)
        except errors.Full:
            self.tell(self._header(b"C", 0) + self._encode_calls(calls))
            with contextlib.suppress(errors.Full):  # or the thread has other messages, and looks after them
                self.peer.send(self.member, self._header(b"M", 0), timeout=0)
            return None

    def call(self, calls: Any, timeout: float | None = None) -> list[Any]:
        """Have commands applied everywhere; returns what they returned here."""
        call = Call()
        number = self.begin(calls, call, timeout)
        try:
            call.wait()
        finally:
            self._pending.pop(number, None)
        if call.error is not None:
            raise call.error.with_traceback(None)
        return call.results  # type: ignore[no-any-return]

    def begin_sync(self, call: Call, timeout: float | None = None) -> int:
        """Send a mark to ourselves: it comes after all that was finished anywhere."""
        self._check_caller()
        return self._post(b"M", self.member, b"", call, timeout)

    def sync(self, timeout: float | None) -> None:
        """Return when all has been applied here that was finished anywhere when this was called."""
        deadline = _core.Deadline(timeout)
        call = Call()
        number = self.begin_sync(call, timeout)
        self._await(call, deadline, lambda: self.end(number), "what was finished elsewhere was not applied here")

    def begin_wait(self, predicate: Callable[[], Any], call: Call) -> None:
        """Have a predicate looked at after each change."""
        self._check_caller()
        with self.reading():
            if self._look(call, predicate):
                return
            self._waiters[call] = predicate
        try:
            self.check()
        except BaseException:
            self.end_wait(call)
            raise

    def end_wait(self, call: Call) -> None:
        """Wait no more."""
        self._waiters.pop(call, None)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None) -> Any:
        """Return what the predicate returns as soon as that is true."""
        deadline = _core.Deadline(timeout)
        call = Call()
        try:
            try:
                self.begin_wait(predicate, call)
                self._await(call, deadline, lambda: self.end_wait(call), "what was waited for did not come")
                return call.results
            finally:
                self.end_wait(call)
        finally:  # perhaps a handler of a signal has struck in the other one
            self.end_wait(call)

    def _await(self, call: Call, deadline: _core.Deadline, end: Callable[[], None], what: str) -> None:
        try:
            call.wait(deadline.left_ns())
        finally:
            end()
        if not call.is_done:
            raise errors.Empty(f"{what} before the timeout")
        if call.error is not None:
            raise call.error.with_traceback(None)

    def _check_caller(self) -> None:
        me = threading.get_ident()
        if me in _appliers:  # it would wait for itself, or every replica would do what only one should
            raise RuntimeError(
                "a replica was used by a command, by `on_view` or by what waits for the state: these may read it, and "
                "a command may call other commands of the same object"
            )
        if self._reader and self._reader == me:
            raise RuntimeError("this thread keeps the state as it is (`reading`): leave that block first")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Apply nothing during a block."""
        me = threading.get_ident()
        if me == self._thread.ident or (self._reader and me == self._reader):
            yield
            return
        if self._pid != os.getpid():  # the thread of the parent may have held the lock
            yield
            return
        with self._row, self._still:
            try:
                try:
                    self._reader = me
                    yield
                finally:
                    self._reader = 0
            finally:  # perhaps a handler of a signal has struck in the other one
                self._reader = 0

    # ---- the thread ----

    def _run(self) -> None:
        _appliers.add(threading.get_ident())
        try:
            while True:
                has_more = self._flush()
                try:
                    messages = self.peer.recv_many(_LIMIT, _RETRY_S if has_more else None)
                except errors.Empty:
                    continue
                with self._row:  # after the readers that wait
                    pass
                with self._still:
                    self._receive(messages)
        except errors.ShutDown as error:
            self._fail(error)
        except BaseException as error:
            self._fail(error)
            self.peer.close()  # nobody else is to wait for this queue
        finally:
            _appliers.discard(threading.get_ident())

    def _receive(self, messages: list[Any]) -> None:
        replica = self._replica()
        if replica is None:
            raise errors.ShutDown("this replica was forgotten")
        self._is_applying = True
        try:
            for message in messages:
                self._take(replica, message)
        finally:
            self._is_applying = False
        if self._waiters:
            for call, predicate in list(self._waiters.items()):
                if self._look(call, predicate):
                    self._waiters.pop(call, None)

    @staticmethod
    def _look(call: Call, predicate: Callable[[], Any]) -> bool:
        try:
            found = predicate()
        except BaseException as error:
            call.finish(error=error)
            return True
        if found:
            call.finish(found)
        return bool(found)

    def _take(self, replica: Any, message: Any) -> None:
        if message.kind == "view":
            self._do(replica, self._see(message), None)
            return
        if message.kind != "data":
            return
        data = message.data
        kind = data[0] if data else 0
        if kind == _C and self.transfer.follows():
            self._apply(replica, message.sender, data)
        elif kind in _DATA:
            effects = self._get(kind, message.sender, data)
            self._do(replica, effects, None)
        else:
            self._take_aside(replica, kind, message.sender, data)

    def _see(self, message: Any) -> list[Effect]:
        view = message.view
        return self.transfer.view(view.number, view.members, view.joined, view.left, ("view", view))

    def _get(self, kind: int, sender: str, data: bytes) -> list[Effect]:
        if kind in (_W, _N) and len(data) == _NUMBER.size:
            word = "settled" if kind == _W else "needy"
            return self.transfer.word(word, sender, _NUMBER.unpack(data)[1])
        return self.transfer.event((sender, data))

    def _take_aside(self, replica: Any, kind: int, sender: str, data: bytes) -> None:
        if kind == _M and sender == self.member:
            self._do(replica, self.transfer.aside(("mark", _NUMBER.unpack(data)[1])), None)
        elif kind == _S:
            self._take_piece(replica, sender, data)
        elif kind == _A:
            self._take_ack(sender, data)
        elif kind == _R and not self.transfer.has_state:
            raise TypeError(f"{sender!r} can't give the state of {self.group!r}: {data[1:].decode(errors='replace')}")

    # ---- what the transfer says ----

    def _do(self, replica: Any, effects: list[Effect], given: Any) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(replica, effect.item)
            elif isinstance(effect, Say):
                kind = b"W" if effect.word == "settled" else b"N"
                self._words.append(_NUMBER.pack(kind, effect.number))
            elif isinstance(effect, Give):
                self._give(replica, effect)
            elif isinstance(effect, Take):
                self.position, self.members = given["position"], tuple(given["members"])
                self._begin_to_verify(replica)
            elif isinstance(effect, Begin):
                self.position = 0
                self._begin_to_verify(replica)
        if effects and self.transfer.has_state:
            self.ready.finish()

    def _begin_to_verify(self, replica: Any) -> None:
        if self._verifier is not None:
            self._verifier.begin(replica)

    def _deliver(self, replica: Any, item: Any) -> None:
        if item[0] == "view":
            self._change(replica, tuple(item[1].members))
        elif item[0] == "mark":
            call = self._pending.pop(item[1], None)
            if call is not None:
                call.finish()
        else:
            sender, data = item
            if data[0] == _C:
                self._apply(replica, sender, data)
            elif self._verifier is not None and data[0] in (_D, _T):
                self._verifier.hear(replica, data[0] == _D, sender, data[1:])

    def _change(self, replica: Any, members: tuple[str, ...]) -> None:
        # Compared here: of one that died, and whose slot has another peer by now, the view can't name who has left.
        former, self.members = self.members, members
        joined = tuple(name for name in members if name not in former)
        left = tuple(name for name in former if name not in members)
        for name in left:
            self._gifts.pop(name, None)
            self._letters.pop(name, None)
        self.position += 1
        replica.on_view(members, joined, left)
        if self._verifier is not None:
            self._verifier.step(replica, "view", (members, joined, left))

    def _apply(self, replica: Any, sender: str, data: bytes) -> None:
        try:
            number = _NUMBER.unpack_from(data)[1]
            calls = self.codec.decode(memoryview(data)[_NUMBER.size :])
            results = self.commands.run(replica, calls)
        except Exception as error:
            if sender not in self.members:
                return  # it is no replica: the same everywhere
            raise errors.Diverged(
                f"what {sender!r} sent at position {self.position + 1} of {self.group!r} can't be read here: "
                f"{error!r}; have all replicas the codec, and the classes, that it has?",
                self.position + 1,
                None,
            ) from error
        call = self._pending.pop(number, None) if sender == self.member else None
        self.position += len(results)
        if self._verifier is not None:
            self._verifier.step(replica, "calls", data[_NUMBER.size :], results)
        if call is not None:
            call.finish(results)

    # ---- the state, given and taken ----

    def _give(self, replica: Any, effect: Give) -> None:
        try:
            state = self.encode(replica.get_state())
        except Exception as error:
            for to in effect.to:
                self._letters.setdefault(to, deque()).append(b"R" + str(error).encode())
            return
        facts = {
            "position": self.position,
            "members": self.members,
            "roster": effect.roster,
            "class": type(replica).__name__,
            "codec": name_of(self.codec),
            "commands": self.names,
        }
        head = PLAIN.encode(facts)
        payload = b"".join((_HEAD.pack(len(head)), head, state))
        for to in effect.to:
            self._gifts[to] = Gift(effect.place, payload, self._piece_bytes)

    def _take_piece(self, replica: Any, sender: str, data: bytes) -> None:
        self._letters.setdefault(sender, deque()).append(b"A" + answer(data[1:]))
        if self.transfer.has_state:
            return
        whole = self._pieces.take(sender, data[1:])
        if whole is None:
            return
        place, payload = whole
        if not self.transfer.wants(place):
            return
        begin = _HEAD.size + _HEAD.unpack_from(payload)[0]
        given = PLAIN.decode(payload[_HEAD.size : begin])
        self._compare(type(replica).__name__, given)
        replica.set_state(self.codec.decode(payload[begin:]))
        self._do(replica, self.transfer.state(place, given["roster"]), given)

    def _compare(self, own: str, given: dict[str, Any]) -> None:
        if given["commands"] != self.names:
            raise TypeError(
                f"{self.group!r} is kept by a {given['class']} with the commands {', '.join(given['commands'])}; "
                f"{own} has {', '.join(self.names)}: join with the same class"
            )
        if given["class"] != own:
            raise TypeError(f"{self.group!r} is kept by a {given['class']}, not by a {own}: join with the same class")
        if given["codec"] != name_of(self.codec):
            raise TypeError(
                f"{self.group!r} is kept with the codec {given['codec']!r}, and not with {name_of(self.codec)!r}: join "
                f"with the same codec"
            )

    def _take_ack(self, sender: str, data: bytes) -> None:
        gift = self._gifts.get(sender)
        if gift is not None and gift.hear(data[1:]):
            del self._gifts[sender]

    # ---- what this thread has to send: never waited for ----

    def tell(self, word: bytes) -> None:
        """Send this to the group, soon."""
        self._words.append(word)

    def _flush(self) -> bool:
        """Send what has room now; is something left that has to be tried again?"""
        is_full = False
        while self._words and not is_full:
            is_full = not self._try(self._to, self._words[0])
            if not is_full:
                self._words.popleft()
        for to, letters in list(self._letters.items()):
            while letters and self._try(to, letters[0]):
                letters.popleft()
            if letters:
                is_full = True
            else:
                del self._letters[to]
        for to, gift in list(self._gifts.items()):
            while (piece := gift.next_piece()) is not None:
                if not self._try(to, b"S" + piece):
                    is_full = True
                    break
                gift.sent += 1
        return is_full

    def _try(self, to: str, data: bytes) -> bool:
        try:
            self.peer.send(to, data, timeout=0)
        except errors.Full:
            return False
        except (errors.PeerDead, errors.UnknownPeer):
            return True  # it has gone, and with it what it was to get
        return True


@atexit.register
def _close_all() -> None:
    """Leave every group before the interpreter ends: a thread that waits in C must not find it gone."""
    for engine in list(_running):
        if engine._pid == os.getpid():
            engine.close()
