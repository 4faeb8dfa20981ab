# SPDX-License-Identifier: Apache-2.0
"""The engine of one replica: its peer, the thread that applies commands, and the calls that wait for that thread.

One thread of each replica receives and applies, and no other one does.  So the queues of others do not fill while the
application is busy elsewhere, and no signal handler, which Python runs in the main thread, can strike in the middle of
a command and leave a half-changed replica.  A call sends its command to the group and sleeps until the thread has
applied it.

What reads the state, and how without keeping it still, is replica_reading.py.

Messages, all of the replica's own peer.  To the group, counted by transfer.py as events:

    C number(8) calls         commands; the number is the sender's, which waits for their results
    D position(8) digest      the digest of the sender's state at a position (verify.py)
    T position(8) digests     the digests after each command since the last position at which all agreed

To the replica itself:

    M number(8)               a mark: everything that was finished anywhere before it has arrived before it
    L                         a look: what stood in the replica's own queue before it was received

The words by which a state is given and taken are those of exchange.py.

Anything else is passed over, and so is a C of a non-member that can't be read.  A C of a member that can't be read here
ends this replica, since others may have applied it.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._port.deadline import NEVER, Deadline
from busq._port.enter_group import enter_here
from busq._port.group_members import wide_domain
from busq._state.chunks import chunk_bytes
from busq._state.digests import digest_of_kinds
from busq._state.plain_codec import PLAIN, name_of, written
from busq._state.replica_reading import Completion, Reading, here
from busq._state.state_transfer import CannotGiveError, StateExchange
from busq._state.verify import Verifier, check_codec, check_sort

_LIMIT = 256  # messages that are applied before readers get a turn
_RETRY_S = 0.001
_PATIENCE_S = 1.0  # with what was sent to other machines, where there is no time
NOT_APPLIED = "what was sent to other machines was not applied here, and is open"
_NUMBER = struct.Struct("<cQ")

_running: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine(Reading):
    """The engine of one replica, to which it has a weak reference: a replica that is forgotten is closed."""

    def __init__(self, replica: Any, bus: Any, group: str, member: str, codec: Any, verify: int) -> None:
        super().__init__()
        self._replica = weakref.ref(replica)
        self.commands = type(replica)._busq_commands
        self.names = self.commands.names
        self.codec = codec
        self._encode_calls = codec.encode_calls if codec is PLAIN else self.encode
        self.group = group.removeprefix("@")
        self._to = f"@{self.group}"
        self.member = member
        self.own_bus: Any = None  # one that was opened for this replica
        # A thread that looked again and again before it slept would hold the interpreter back from its owner.
        self.peer = bus.join(member, spin_us=0)
        self._wide = self._wide_words(group)  # None: all members are on this bus
        self.is_wide = self._wide is not None
        self._send = self.peer.send if self._wide is None else self._wide.send
        chunk = chunk_bytes(bus._raw().facts()["arena"])
        if self._wide is not None:
            chunk = min(chunk, self._wide.chunk_bytes_max)
        self.word_bytes_max = chunk if self.is_wide else 1 << 40  # as much as an arena takes
        self._exchange = StateExchange(member, self.group, chunk, self)
        self._transfer = self._exchange.transfer
        self.position = 0
        self.members: tuple[str, ...] = ()
        self._ready = Completion()  # done when the state is there
        self._receives = Completion()  # done when the thread has looked for messages
        self._has_looked = Completion()  # done when it has received what stood in the queue at the end of the timeout
        self._verifier = Verifier(self, verify, self._exchange.send_all) if verify else None
        self._numbers = itertools.count(1)
        self._pending: dict[int, Completion] = {}
        self._waiters: dict[Completion, Callable[[], Any]] = {}
        self.failure: BaseException | None = None
        self._applied_to: Any = None  # the replica, while commands are applied
        self._thread = threading.Thread(target=self._run, name=f"busq replica {member}", daemon=True)
        _running.add(self)

    def _wide_words(self, group: str) -> Any:
        if not group.startswith("@") and wide_domain(self.peer, group) is None:
            return None
        from busq._state.replica_wide import wide_words_of  # here, since most programs have one machine

        try:
            return wide_words_of(self.peer, group)
        except BaseException:
            self.peer.close()
            raise

    def encode(self, obj: Any) -> bytes:
        """Return the bytes that the codec makes of it."""
        return written(self.codec, obj)

    # ---- its life ----

    def start(self, timeout: float | None) -> None:
        """Enter the group, and return when the state is there."""
        deadline = Deadline(timeout)
        self._thread.start()
        # Entering sends to this peer too: full, the core refuses that, unless it knows of a thread that receives.
        self._receives.wait()
        if self._wide is None:
            enter_here(self.peer, self.group, timeout=deadline.left_s())
        else:
            self._wide.enter(deadline.left_s())
        if not (self._ready.wait(deadline.left_ns()) or self._is_ready_at_once()):
            raise errors.Empty(
                f"no state of {self.group!r} came before the timeout: the member that is to give it may be stopped, or "
                f"be no replica"
            )
        self._ready.result()

    def _is_ready_at_once(self) -> bool:
        """Whether the state is there with what has come so far, as that of the first member is: no other gives it."""
        if self._wide is None:
            with contextlib.suppress(errors.ShutDown):  # the thread has the reason
                self.peer.send(self.member, b"L")
            self._has_looked.wait()
        return self._ready.is_done

    def close(self) -> None:
        """Leave the group, and end the thread, which in a block of `reading` ends behind that."""
        self._fail(errors.ShutDown("this replica was closed"))
        self.peer.close()
        if self.is_here() and self._thread.is_alive() and not (here.engine is self or self._is_kept_here()):
            self._thread.join()
        if self.own_bus is not None:
            self.own_bus.close()
        _running.discard(self)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        for call in [self._ready, self._receives, self._has_looked, *self._pending.values(), *self._waiters]:
            call.finish(error=self.failure)

    def check(self) -> None:
        """Raise unless this replica is in use, here."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        self.check_process()

    def check_process(self) -> None:
        """Raise in a forked child."""
        if not self.is_here():
            raise errors.ForkedHandle(
                "this replica belongs to the parent process: open the bus and join again in the child"
            )

    # ---- calls, in any thread ----

    @property
    def is_in_command(self) -> bool:
        """Whether a command runs, so that another one that it calls is a part of it."""
        if here.engine is not self:
            return False
        if self._applied_to is None:
            raise RuntimeError("a command was called by what waits for the state: only a command may change it")
        return True

    def begin(self, calls: Any, call: Completion, timeout: float | None = None) -> int:
        """Send commands as one message; returns the number of their call.  Whatever comes, `end` has to follow."""
        self._check_caller()
        body = self._encode_calls(calls)
        if self.codec is not PLAIN:
            self.codec.decode(memoryview(body))  # raises here, before it is sent, if it can't be read
        return self._post(b"C", self._to, body, call, timeout)

    def _post(self, kind: bytes, to: str, body: Any, call: Completion, timeout: float | None) -> int:
        number = next(self._numbers)
        try:
            self._pending[number] = call
            self.check()  # after that: one that fails finishes what it finds here
            head = _NUMBER.pack(kind, number)
            self._send(to, head + body if len(body) < 4096 else [head, body], timeout=timeout)
            return number
        except BaseException as error:
            self._pending.pop(number, None)
            if isinstance(error, errors.ShutDown):
                self.check()  # the thread may have ended for another reason, and closed the peer
            raise

    def end(self, number: int) -> None:
        """Forget a call, which is over."""
        self._pending.pop(number, None)

    def _wake_thread(self) -> None:
        self.peer.send(self.peer.name, _NUMBER.pack(b"M", 0), timeout=0)

    def call_or_queue(self, calls: Any) -> Any:
        """Have commands applied everywhere; returns what they returned here.

        Where there is no room it returns None, and they are sent later: it never waits for room.
        """
        try:
            return self.call(calls, 0)
        except errors.Empty:
            return None  # it was sent
        except errors.Full:
            self._exchange.send_all(_NUMBER.pack(b"C", 0) + self._encode_calls(calls))
            with contextlib.suppress(errors.Full):  # then the thread has other messages, and flushes behind them
                self._wake_thread()
            return None

    def call(self, calls: Any, timeout: float | None = None) -> list[Any]:
        """Have commands applied everywhere; returns what they returned here."""
        call, until = Completion(), self.until(timeout)
        number = self.begin(calls, call, timeout)
        self._await(call, until, lambda: self.end(number), NOT_APPLIED)
        return call.results  # type: ignore[no-any-return]

    def until(self, timeout: float | None) -> Deadline:
        """Return how long to wait for what was sent; for ever on one machine, where nothing holds it up."""
        return NEVER if self._wide is None or timeout is None else Deadline(max(timeout, _PATIENCE_S))

    def begin_sync(self, call: Completion, timeout: float | None = None) -> int:
        """Send a mark to this replica: it arrives after everything that was finished anywhere."""
        self._check_caller()
        return self._post(b"M", self.member, b"", call, timeout)

    def sync(self, timeout: float | None) -> None:
        """Return when everything that was finished anywhere at the call has been applied here."""
        deadline = Deadline(timeout)
        call = Completion()
        number = self.begin_sync(call, timeout)
        self._await(call, deadline, lambda: self.end(number), "what was finished elsewhere was not applied here")

    def begin_wait(self, predicate: Callable[[], Any], call: Completion) -> Any:
        """Have a predicate called after each change; returns what it returns now."""
        self._check_caller()
        try:
            self._waiters[call] = predicate
            self.check()
            return self.ask(predicate)
        except BaseException:
            self.end_wait(call)
            raise

    def end_wait(self, call: Completion) -> None:
        """Forget a wait, which is over."""
        self._waiters.pop(call, None)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None) -> Any:
        """Return what the predicate returns as soon as that is true."""
        deadline = Deadline(timeout)
        call = Completion()
        try:
            try:
                found = self.begin_wait(predicate, call)
                if not found:
                    self._await(call, deadline, lambda: self.end_wait(call), "what was waited for did not come")
                    found = call.results
                return found
            finally:
                self.end_wait(call)
        finally:  # a signal handler may have raised in the inner block
            self.end_wait(call)

    def _await(self, call: Completion, deadline: Deadline, end: Callable[[], None], what: str) -> None:
        try:
            call.wait(deadline.left_ns())
        finally:
            end()
        if not call.is_done:
            raise errors.Empty(f"{what} before the timeout")
        call.result()

    def _check_caller(self) -> None:
        if here.engine is not None:  # it would wait for itself, or every replica would do what only one should
            raise RuntimeError(
                "a replica was used by a command, by `on_view` or by what waits for the state: these may read it, and "
                "a command may call other commands of the same object"
            )
        if self._is_kept_here():
            raise RuntimeError(
                "this thread keeps the state as it is (`reading`), or a signal handler was called in that block: leave "
                "that block first"
            )

    # ---- the thread ----

    def _run(self) -> None:
        here.engine = self
        try:
            is_open = self._take_in(0)
            self._receives.finish()
            while is_open:
                is_open = self._take_in(_RETRY_S if self._flush() else None)
        except errors.ShutDown as error:
            self._fail(error)
        except BaseException as error:
            self._fail(error)
            self.peer.close()  # others must not wait for room in this queue
        finally:
            self._is_over = True
            self._answer()
            here.engine = None

    def _take_in(self, timeout: float | None) -> bool:
        """Receive and apply; False where the replica was closed meanwhile."""
        try:
            messages = self.peer.recv_many(_LIMIT, timeout)
        except errors.Empty:
            return True
        with self._readers:  # behind those that wait
            pass
        with self._state_lock:
            if self.failure is None:  # closed in a block of `reading`, behind which nothing is applied
                self._receive(messages)
        return self.failure is None

    def _receive(self, messages: list[Any]) -> None:
        replica = self._replica()
        if replica is None:
            raise errors.ShutDown("this replica was forgotten")
        self._changes += 1
        self._applied_to = replica
        try:
            for message in messages:
                self._take(message)
        finally:
            self._applied_to = None
            self._changes += 1
        if self._waiters:
            for call, predicate in list(self._waiters.items()):
                self._try_to_finish(call, predicate, is_last=False)
                if call.is_done:
                    self._waiters.pop(call, None)
        if self._questions:
            self._answer()

    def _take(self, message: Any) -> None:
        if self._wide is not None and message.kind == "data":
            message = self._wide.read(message)
            if message is None:
                return None
        if message.kind == "view":
            if self._wide is not None:
                self._wide.view(message.view)
                self.member = self._transfer.me = self._wide.me
            self._exchange.view(message.view, ("view", message.view, None))
        elif message.kind == "data":
            sender, data = message.sender, message.data
            letter = data[:1]
            if letter == b"C" and self._transfer.follows():
                return self._apply(sender, data)
            if letter in (b"C", b"D", b"T"):
                self._exchange.follow(self._transfer.event(("data", sender, data)))
            elif letter == b"M" and sender == self.member:
                self._exchange.follow(self._transfer.aside(("mark", _NUMBER.unpack(data)[1], None)))
            elif letter == b"L" and sender == self.member:
                self._has_looked.finish()
            else:
                self._exchange.word(sender, letter, data[1:])
        if self._transfer.is_open:
            self._ready.finish()
        return None

    def _flush(self) -> bool:
        """Send what has room now; returns whether something is left."""
        full: set[str] = set()
        self._exchange.flush(self._try, full)
        return bool(full)

    def _try(self, to: str, data: bytes) -> bool:
        try:
            self._send(to, data, timeout=0)
        except errors.Full:
            return False
        except (errors.PeerDead, errors.UnknownPeer):
            return not self.is_wide  # the receiver has gone, or the bridge's queue, which may come again
        return True

    # ---- the owner of the exchange ----

    def give_state(self) -> tuple[dict[str, Any], bytes]:
        """Return the state, with what a joiner compares and goes on from."""
        replica = self._applied_to
        try:
            state = replica.get_state()
            packed = self.encode(state)
        except Exception as error:
            raise CannotGiveError(str(error)) from error
        kinds = b"" if self.codec is PLAIN else digest_of_kinds(state)
        facts = {**self._sort(), "position": self.position, "members": self.members, "kinds": kinds}
        return facts, packed

    def _sort(self) -> dict[str, Any]:
        """Return what all replicas of the group have alike."""
        return {"class": type(self._applied_to).__name__, "codec": name_of(self.codec), "commands": self.names}

    def take_state(self, facts: dict[str, Any], state: memoryview) -> None:
        """Take the state of another replica."""
        replica = self._applied_to
        check_sort(self.group, self._sort(), facts)
        read = self.codec.decode(state)
        check_codec(self.codec, facts.get("kinds", b""), read)
        replica.set_state(read)
        self.position, self.members = facts["position"], tuple(facts["members"])
        self._begin_to_verify()

    def begin_anew(self) -> None:
        """Begin with the state that `__init__` made."""
        self.position = 0
        if self._wide is not None:
            self._applied_to._busq_begin(self._wide.key)
        self._begin_to_verify()

    def _begin_to_verify(self) -> None:
        if self._verifier is not None:
            self._verifier.begin(self._applied_to)

    def deliver(self, item: Any) -> None:
        """Apply commands, change the view, finish a call, or compare digests."""
        kind, what, data = item
        if kind == "view":
            again = () if self._wide is None else {*what.joined} & {*what.left} & {*self.members}
            if again:  # a member that comes again before its death was known: what it held is free in between
                self._change_view(tuple(name for name in what.members if name not in again))
            self._change_view(tuple(what.members))
        elif kind == "mark":
            call = self._pending.pop(what, None)
            if call is not None:
                call.finish()
        elif data[:1] == b"C":
            self._apply(what, data)
        elif self._verifier is not None:
            self._verifier.receive(self._applied_to, data[:1], what, data[1:])

    def _change_view(self, members: tuple[str, ...]) -> None:
        # Compared here: the view can't name a member that died and whose slot has another peer by now.
        former, self.members = self.members, members
        joined = tuple(name for name in members if name not in former)
        left = tuple(name for name in former if name not in members)
        self.position += 1
        self._applied_to.on_view(members, joined, left)
        if self._verifier is not None:
            self._verifier.note(self._applied_to, "view", (members, joined, left))

    def _apply(self, sender: str, data: bytes) -> None:
        try:
            number = _NUMBER.unpack_from(data)[1]
            calls = self.codec.decode(memoryview(data)[_NUMBER.size :])
            results = self.commands.run(self._applied_to, calls)
        except Exception as error:
            if sender not in self.members:
                return  # not a replica: passed over everywhere
            raise errors.Diverged(
                f"what {sender!r} sent at position {self.position + 1} of {self.group!r} can't be read here: "
                f"{error!r}; have all replicas the codec, and the classes, that it has?",
                self.position + 1,
                None,
            ) from error
        self.position += len(results)
        if self._verifier is not None:
            self._verifier.note(self._applied_to, "calls", data[_NUMBER.size :], results)
        call = self._pending.pop(number, None) if sender == self.member else None
        if call is not None:
            call.finish(results)


def close_if_there(engine: weakref.ref[Engine]) -> None:
    """Close the engine of a replica that was forgotten, unless it goes together with that.

    The finalizer of a replica has no engine in its hands.  An error that an engine keeps leads to the replica, by the
    frames of its traceback, and a replica that its own finalizer leads to would never be forgotten.
    """
    found = engine()
    if found is not None:
        found.close()


@atexit.register
def _close_all() -> None:
    """Leave every group before the interpreter ends: a thread that waits in C must not find the interpreter gone."""
    for engine in list(_running):
        if engine.is_here():
            engine.close()
