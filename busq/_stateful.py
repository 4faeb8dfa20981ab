# SPDX-License-Identifier: Apache-2.0
"""A peer that gives and takes the state of its groups: what `Peer.enter` makes of one that is given `state` and `take`.

It receives as any other does, and looks at what it gets before its owner does: views, and words of the library, which
its owner never sees, go through busq/_transfer.py.  Nobody else pays for that: a peer becomes one when it first enters
a group so, by another class.

Words are messages of the form BUSQ_FORM_CONTROL: a letter, the length of the group's name(1), its name, and what
busq/_transfer.py ("W" and "N": view(8)) and busq/_pieces.py ("S" and "A") say.  What others send to the group is not
counted for places: who has the state takes it by the short way, which does not say to which group it belongs.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from busq import _core, errors
from busq._native import ffi, lib
from busq._pieces import Gift, Pieces, answer, piece_bytes
from busq._transfer import Deliver, Effect, Give, Say, Take, Transfer

__all__ = ["Stateful", "become"]

_RETRY_NS = 1_000_000


class _Group:
    """One group, whose state is given and taken."""

    def __init__(self, name: str, me: str, state: Callable[[], Any], take: Callable[[bytes], object]) -> None:
        self.name, self.state, self.take = name, state, take
        self.transfer = Transfer(me)
        self.pieces = Pieces()
        self.gifts: dict[str, Gift] = {}

    def word(self, letter: bytes, rest: bytes) -> bytes:
        """Make a word of this group."""
        name = self.name.encode()
        return letter + bytes([len(name)]) + name + rest


class Stateful:
    """What stands before the receiving methods of a peer."""

    _name: str
    _bus: Any
    _handle: Any

    def _begin(self) -> None:
        self._wants_control = True
        self._states: list[_Group] = []
        self._inbox: deque[Any] = deque()  # taken and not looked at
        self._sorted: deque[Any] = deque()  # for the owner
        self._addressed: dict[int, str] = {}  # to which group a message was sent, while a state is awaited
        self._words: deque[tuple[str, bytes]] = deque()
        self._turn = threading.RLock()

    # ---- receiving ----

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        _core.check_ack(ack)
        return self._first(_core.Deadline(timeout), ack)

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> Any:
        _core.check_limit(limit)
        _core.check_ack(ack)
        messages = [self._first(_core.Deadline(timeout), ack)]
        try:
            while len(messages) < limit:
                messages.append(self._first(_core.AT_ONCE, ack))
        except errors.Empty:
            pass
        except BaseException:
            self._sorted.extendleft(reversed(messages))
            raise
        return messages

    def _next(self) -> Any:
        try:
            return self._first(_core.NEVER, False)
        except errors.ShutDown:
            raise StopIteration from None

    def _first(self, deadline: _core.Deadline, ack: bool) -> Any:
        left_ns = deadline.left_ns()
        if not self._turn.acquire(timeout=-1 if left_ns < 0 else left_ns / 1e9):
            raise errors.Empty("nothing came before the timeout")
        try:
            while True:
                while self._inbox and not self._sorted:
                    self._sort(self._inbox[0])
                    self._inbox.popleft()
                    self._flush()  # now, since nobody knows when its owner receives again
                if self._sorted:
                    return self._hand_over()
                self._wait(deadline, ack)
        finally:
            self._turn.release()

    def _hand_over(self) -> Any:
        message = self._sorted[0]
        try:
            self._sorted.popleft()
            return message
        except BaseException:  # of a handler of a signal: the message comes next
            if not self._sorted or self._sorted[0] is not message:
                self._sorted.appendleft(message)
            raise

    def _wait(self, deadline: _core.Deadline, ack: bool) -> None:
        has_more = self._flush()
        left_ns = deadline.left_ns()
        is_slice = has_more and (left_ns < 0 or left_ns > _RETRY_NS)
        seconds = _RETRY_NS / 1e9 if is_slice else None if left_ns < 0 else left_ns / 1e9
        is_awaited = any(not one.transfer.has_state for one in self._states)
        receive: Any = self._recv_slow if is_awaited else super().recv  # type: ignore[attr-defined,misc]
        try:
            # In one step of C from the queue into ours, so that no handler of a signal comes between.
            self._inbox.extend(map(functools.partial(receive, ack=ack), (seconds,)))
        except errors.Empty:
            if not is_slice:
                raise

    def _message(self, pin: Any) -> Any:
        message = super()._message(pin)  # type: ignore[misc]
        if pin.message.form & lib.BUSQ_FORM_ENVELOPE and message.kind not in ("view", "control"):
            envelope = ffi.new("busq_envelope *")
            lib.busq_message_envelope(ffi.addressof(pin.message), envelope)
            if envelope.group in self._group_names:  # otherwise it was never a member
                self._addressed[id(message)] = self._group_names[envelope.group]
        return message

    # ---- what it was ----

    def _sort(self, message: Any) -> None:
        """Hand a message to whom it belongs: the library, or the owner, or whoever holds it back."""
        kind = message.kind
        if kind == "control":
            self._pass((message.sender, message.data), 0, self._group_of_word(message.data))
        else:
            sent_to = message.group if kind == "view" else self._addressed.pop(id(message), None)
            self._pass(message, 0, sent_to)

    @staticmethod
    def _group_of_word(data: bytes) -> str:
        return data[2 : 2 + data[1]].decode("utf-8", "replace") if len(data) > 1 else ""

    def _pass(self, message: Any, start: int, sent_to: str | None) -> None:
        """Show it to one group after the other; each may hold it back, and lets it go on from there later."""
        for number in range(start, len(self._states)):
            group = self._states[number]
            if group.name == sent_to:
                self._follow(number, self._shown(group, message))
                return
            if not group.transfer.has_state:
                self._follow(number, group.transfer.aside((message, sent_to)))
                return
        if not isinstance(message, tuple):
            self._sorted.append(message)

    def _shown(self, group: _Group, message: Any) -> list[Effect]:
        if isinstance(message, tuple):
            return self._heard(group, *message)
        item = message, None
        if message.kind != "view":
            return group.transfer.quiet(item)
        view = message.view
        for name in group.gifts.keys() - set(view.members):
            del group.gifts[name]
        effects = group.transfer.view(view.number, view.members, view.joined, view.left, item)
        if self._name not in view.members:
            self._states.remove(group)
            self._sorted.append(message)
            return []
        return effects

    def _heard(self, group: _Group, sender: str, data: bytes) -> list[Effect]:
        letter, rest = data[:1], data[2 + data[1] :]
        if letter in (b"W", b"N") and len(rest) == 8:
            word = "settled" if letter == b"W" else "needy"
            return group.transfer.word(word, sender, int.from_bytes(rest, "little"))
        if letter == b"S":
            self._words.append((sender, group.word(b"A", answer(rest))))
            whole = None if group.transfer.has_state else group.pieces.take(sender, rest)
            if whole is not None:
                return self._took(group, *whole)
        elif letter == b"A" and sender in group.gifts and group.gifts[sender].hear(rest):
            del group.gifts[sender]
        return []

    def _took(self, group: _Group, place: tuple[int, int], payload: memoryview) -> list[Effect]:
        from busq._plain import PLAIN

        size = int.from_bytes(payload[:4], "little")
        roster = PLAIN.decode(payload[4 : 4 + size])
        effects = group.transfer.state(place, roster)
        if effects:
            group.take(bytes(payload[4 + size :]))
        return effects

    def _follow(self, number: int, effects: list[Effect]) -> None:
        group = self._states[number] if effects else None
        for effect in effects:
            assert group is not None
            if isinstance(effect, Deliver):
                self._pass(effect.item[0], number + 1, effect.item[1])
            elif isinstance(effect, Say):
                letter = b"W" if effect.word == "settled" else b"N"
                self._words.append((f"@{group.name}", group.word(letter, effect.number.to_bytes(8, "little"))))
            elif isinstance(effect, Give):
                self._give(group, effect)
            elif isinstance(effect, Take) and effect.view is not None:
                self._sorted.append(effect.view[0])

    def _give(self, group: _Group, effect: Give) -> None:
        from busq._plain import PLAIN

        head = PLAIN.encode(effect.roster)
        payload = len(head).to_bytes(4, "little") + head + bytes(group.state())
        for to in effect.to:
            group.gifts[to] = Gift(effect.place, payload, piece_bytes(self._raw_bus()))

    # ---- sending what the library has to say: never waited for ----

    def _flush(self) -> bool:
        """Send what has room now; is something left that has to be tried again?"""
        while self._words:
            if not self._try(*self._words[0]):
                return True
            self._words.popleft()
        for group in self._states:
            for to, gift in list(group.gifts.items()):
                while (piece := gift.next_piece()) is not None:
                    if not self._try(to, group.word(b"S", piece)):
                        return True
                    gift.sent += 1
        return False

    def _try(self, to: str, word: bytes) -> bool:
        try:
            self._send_encoded(to, ([word], lib.BUSQ_FORM_CONTROL), _core.AT_ONCE, _core._new_note())  # type: ignore[attr-defined]
        except errors.Full:
            return False
        except (errors.PeerDead, errors.UnknownPeer):
            return True
        return True


_classes: dict[type, Any] = {}


def _class_of(kind: type) -> Any:
    if kind not in _classes:
        facts = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        _classes[kind] = type(kind.__name__, (Stateful, kind), facts)
    return _classes[kind]


def become(port: Any, group: str, state: Any, take: Any) -> Callable[[], None]:
    """Let a peer give and take the state of a group that it is about to enter; returns what undoes that."""
    for name, given in (("state", state), ("take", take)):
        if not callable(given):
            raise _core.wrong_type(name, given, "a function; state and take are given together")
    if not isinstance(port, Stateful):
        Stateful._begin(port)
        port.__class__ = _class_of(type(port))
    with port._turn:
        if any(one.name == group for one in port._states):
            return lambda: None
        made = _Group(group, port._name, state, take)
        port._states.append(made)

    def undo() -> None:
        with port._turn:
            if made in port._states:
                port._states.remove(made)

    return undo
