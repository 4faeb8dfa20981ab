# SPDX-License-Identifier: Apache-2.0
"""One member's part in giving and taking the state of one group.

transfer.py decides which member gives a state, to which others, and when; a `StateExchange` carries that out: it reads
and writes the words that members send each other, packs states and cuts them into chunks.  The groups of a peer
(group_state.py) and replicas (replica_engine.py) use the same words, and differ in what they call a state: an `Owner`
has that.

Words, each a letter and what belongs to it; numbers are in little-endian:

    W view(8)    to the group: the sender is settled
    N view(8)    to the group: the sender is needy
    S chunk      to a joiner: a part of a state (chunks.py)
    A ...        to the giver: a chunk has arrived
    R text       to a joiner: the state can't be given

A state is size(4) head state, where the head is plain data: the roster of transfer.py, and facts of the owner.

Nothing here waits: words without room stay in an outbox until `flush` is called again.  Sending a word twice changes
nothing, so an exception between sending it and forgetting it is harmless.

>>> class Text:
...     def __init__(self, state): self.state = state
...     def give_state(self): return {}, self.state
...     def take_state(self, facts, state): self.state = bytes(state)
...     def begin_anew(self): pass
...     def deliver(self, item): print(item)
>>> ann, bob = Text(b"state of ann"), Text(b"")
>>> exchanges = {name: StateExchange(name, "g", 1024, text) for name, text in {"ann": ann, "bob": bob}.items()}
>>> from busq.groups import View
>>> exchanges["ann"].view(View(1, ("ann",), ("ann",)), "view 1")
view 1
>>> for exchange in exchanges.values():
...     exchange.view(View(2, ("ann", "bob"), ("bob",)), "view 2")
view 2
>>> exchanges["ann"].flush(lambda to, word: exchanges[to].word("ann", word[:1], word[1:]) is None, set())
view 2
>>> bob.state
b'state of ann'
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from busq._state.chunks import IncomingState, OutgoingState, acknowledgement
from busq._state.plain_codec import PLAIN
from busq._state.transfer_rules import Begin, Deliver, Effect, Give, Say, Take, Transfer

__all__ = ["CannotGiveError", "Owner", "StateExchange"]

_SIZE = struct.Struct("<I")
_VIEW = struct.Struct("<Q")
_LETTERS = {"settled": b"W", "needy": b"N"}
_WORDS = {letter: word for word, letter in _LETTERS.items()}


class CannotGiveError(Exception):
    """Raised by `Owner.give_state`: the joiners are sent the text, instead of a state."""


class Owner(Protocol):
    """The state, and where deliveries go."""

    def give_state(self) -> tuple[dict[str, Any], Any]:
        """Return facts, as plain data, and the state as it is now, bytes-like."""

    def take_state(self, facts: dict[str, Any], state: memoryview) -> None:
        """Take a state that another member gave."""

    def begin_anew(self) -> None:
        """Begin with a new state: there is none to be had."""

    def deliver(self, item: Any) -> None:
        """Deliver an item that was given to `Transfer`."""


class StateExchange:
    """One member of one group: `transfer` is its state machine, whose effects are given to `follow`."""

    def __init__(self, me: str, group: str, chunk_bytes: int, owner: Owner) -> None:
        self.transfer = Transfer(me)
        self._group = group
        self._to_all = f"@{group}"
        self._chunk_bytes = chunk_bytes
        self._owner = owner
        self._incoming = IncomingState()
        self._outgoing: dict[str, OutgoingState] = {}
        self._outbox: deque[tuple[str, bytes]] = deque()

    def keep(self) -> Callable[[], None]:
        """Return a function that restores the present state, and may be called more than once."""
        transfer, incoming = self.transfer.keep(), self._incoming.keep()
        outgoing, outbox = dict(self._outgoing), list(self._outbox)

        def restore() -> None:
            transfer()
            incoming()
            self._outgoing, self._outbox = dict(outgoing), deque(outbox)

        return restore

    # ---- what arrives ----

    def view(self, view: Any, item: Any) -> None:
        """Begin a view; `item` is what the owner gets for it."""
        members = set(view.members)
        for name in self._outgoing.keys() - members:
            del self._outgoing[name]
        # A durable member that is dead may have no room for ever.
        self._outbox = deque(word for word in self._outbox if word[0] == self._to_all or word[0] in members)
        self.follow(self.transfer.view(view.number, view.members, view.joined, view.left, item))

    def word(self, sender: str, letter: bytes, rest: bytes) -> None:
        """Get a word; an unknown or malformed one is passed over, and not counted."""
        if letter in _WORDS and len(rest) == _VIEW.size:
            self.follow(self.transfer.word(_WORDS[letter], sender, *_VIEW.unpack(rest)))
        elif letter == b"S":
            self._add_chunk(sender, rest)
        elif letter == b"A" and sender in self._outgoing:
            if self._outgoing[sender].acknowledge(rest):
                del self._outgoing[sender]
        elif letter == b"R" and not self.transfer.has_state:
            raise TypeError(f"{sender!r} can't give the state of {self._group!r}: {rest.decode(errors='replace')}")

    def _add_chunk(self, sender: str, chunk: bytes) -> None:
        self.send(sender, b"A" + acknowledgement(chunk))
        whole = None if self.transfer.has_state else self._incoming.add(sender, chunk)
        if whole is None or not self.transfer.wants(whole[0]):
            return
        place, payload = whole
        begin = _SIZE.size + _SIZE.unpack_from(payload)[0]
        facts = PLAIN.decode(payload[_SIZE.size : begin])
        took, *rest = self.transfer.state(place, facts.pop("roster"))
        assert isinstance(took, Take)
        self._owner.take_state(facts, payload[begin:])
        self.follow(rest)

    def follow(self, effects: list[Effect]) -> None:
        """Carry out the effects of the state machine, in their order."""
        for effect in effects:
            if isinstance(effect, Deliver):
                self._owner.deliver(effect.item)
            elif isinstance(effect, Say):
                self.send(self._to_all, _LETTERS[effect.word] + _VIEW.pack(effect.number))
            elif isinstance(effect, Give):
                self._give(effect)
            elif isinstance(effect, Begin):
                self._owner.begin_anew()

    def _give(self, effect: Give) -> None:
        try:
            facts, state = self._owner.give_state()
        except CannotGiveError as error:
            for to in effect.to:
                self.send(to, b"R" + str(error).encode())
            return
        head = PLAIN.encode({"roster": effect.roster, **facts})
        payload = b"".join((_SIZE.pack(len(head)), head, state))
        for to in effect.to:
            self._outgoing[to] = OutgoingState(effect.place, payload, self._chunk_bytes)

    # ---- what is sent ----

    def send(self, to: str, word: bytes) -> None:
        """Send a word with the next `flush`, behind those that wait for the same receiver."""
        self._outbox.append((to, word))

    def send_all(self, word: bytes) -> None:
        """Send a word to the group with the next `flush`."""
        self.send(self._to_all, word)

    @property
    def has_words(self) -> bool:
        """Whether `flush` has anything to send."""
        return bool(self._outbox or self._outgoing)

    def flush(self, send: Callable[[str, bytes], bool], full: set[str]) -> None:
        """Send what there is room for.

        Parameters: `send`, sends at once, and returns False where there is no room; `full`, receivers without room,
        which hold up no others: those that are found are added.
        """
        for entry in list(self._outbox):
            to, word = entry
            if to in full or not send(to, word):
                full.add(to)
            else:
                self._outbox.remove(entry)
        for to, state in list(self._outgoing.items()):
            while (chunk := state.next_chunk()) is not None:
                if to in full or not send(to, b"S" + chunk):
                    full.add(to)
                    break
                state.sent += 1
