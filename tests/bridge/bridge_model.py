# SPDX-License-Identifier: Apache-2.0
"""A model of a bridge, its successors, the stream, the inbox and the cursor, and a search through all its executions.

Two machines: the one whose bridges are killed, and another that has published one batch at an arbitrary moment.  Peers
make two requests, one of which has two messages.  Each step that others can see is one action; a publication travels:
it is stored, or refused, at any later moment, also when its bridge is dead, and its acknowledgement may be lost.  A
bridge may be killed between any two steps, twice in all.

What must hold: the members here get the stream's messages in its order, each once; at the end, all of them are there,
and all requests answered.

`MUTANTS` leave out one rule each; the search must find an execution that fails for every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

OTHER = 9  # the other machine's request, and its message
REQUESTS = (1, 2)
MESSAGES = {1: (1,), 2: (2, 3), OTHER: (OTHER,)}  # of each request
KILLS = 2

MUTANTS = {
    "cursor outside of the multicast": "the cursor's entry is a step of its own, behind the delivery",
    "reply at publish": "the sender is replied to when its batch is stored",
    "inbox after re-send": "requests are loaded behind the first re-send",
    "no fence": "a batch is stored wherever the stream stands",
    "no epoch": "a bridge publishes before its own marker was read",
    "two streams": "the other machine's batch stands in a stream of its own",
    "sync by stream info": "a peer waits for the end of the stream that some leader names, which may be an old one",
    "answer at the first message": "a request counts as done with the first of its messages",
    "cursor before request": "a successor acknowledges the cursor's entries before the requests of them",
}


class Batch(NamedTuple):
    """One place of the stream."""

    epoch: int  # 0: of the other machine
    number: int  # in the epoch; 0: the marker
    requests: tuple[int, ...]

    @property
    def messages(self) -> tuple[int, ...]:
        """All of its requests, in order."""
        return tuple(message for request in self.requests for message in MESSAGES[request])

    def request_at(self, index: int) -> int:
        """The request of a message."""
        return [request for request in self.requests for _ in MESSAGES[request]][index]


class Travelling(NamedTuple):
    """A publication that has not arrived."""

    batch: Batch
    expected: int


class Bridge(NamedTuple):
    """The memory of one that lives; all of it is lost with it."""

    epoch: int
    step: str = "drain"
    entries: tuple[tuple[int, int], ...] = ()  # that were taken from the cursor: place and request
    open: tuple[int, ...] = ()
    published: tuple[int, ...] = ()
    number: int = 0
    expected: int = 0
    waits_for: Batch | None = None  # whose acknowledgement has not come
    applied: int = 0  # place and index of what was re-sent last
    index: int = 0
    leads: bool = False
    to_ack: int = 0  # a request that was re-sent, and is to be acknowledged
    to_note: tuple[int, int] | None = None  # a cursor's entry that is to be written, in a mutant
    has_loaded: bool = False


class State(NamedTuple):
    """All that the processes share, and the bridge's memory."""

    asked: int = 0
    inbox: tuple[int, ...] = ()  # not acknowledged
    stream: tuple[Batch, ...] = ()
    travelling: tuple[Travelling, ...] = ()
    cursor: tuple[tuple[int, int], ...] = ()
    members: tuple[int, ...] = ()
    replied: tuple[int, ...] = ()
    there: tuple[int, ...] = ()  # delivered on the other machine, where that may differ
    knew: bool = False  # the sender of the second request has learned, by other ways, that the other batch is stored
    synced: bool = False  # and was let go on without a request of its own
    bridge: Bridge | None = None
    epochs: int = 0
    kills: int = 0
    has_other: bool = False


def last_of_here(stream: tuple[Batch, ...]) -> int:
    """The place of this machine's last batch."""
    return max((place for place, batch in enumerate(stream, 1) if batch.epoch), default=0)


class Model:
    """The actions, with one rule left out or none."""

    def __init__(self, mutant: str = "") -> None:
        assert not mutant or mutant in MUTANTS
        self.mutant = mutant

    def actions(self, state: State) -> Iterator[tuple[str, State]]:
        if state.asked < len(REQUESTS):
            request = REQUESTS[state.asked]
            knew = state.knew or (request == REQUESTS[-1] and state.has_other)
            yield f"ask {request}", state._replace(asked=state.asked + 1, inbox=(*state.inbox, request), knew=knew)
        if not state.has_other:
            stream = state.stream if self.mutant == "two streams" else (*state.stream, Batch(0, 1, (OTHER,)))
            yield "other", state._replace(has_other=True, stream=stream)
        if self.mutant == "two streams":
            yield from self.read_aside(state)
        if self.mutant == "sync by stream info" and state.knew and not state.synced:
            yield "answer with an old end", state._replace(synced=True)
        for at, travelling in enumerate(state.travelling):
            rest = state.travelling[:at] + state.travelling[at + 1 :]
            stored = state._replace(travelling=rest)
            if self.mutant == "no fence" or last_of_here(state.stream) == travelling.expected:
                stored = stored._replace(stream=(*state.stream, travelling.batch))
                if self.mutant == "reply at publish":
                    stored = stored._replace(replied=(*stored.replied, *travelling.batch.requests))
            yield f"arrive {travelling.batch}", stored
        bridge = state.bridge
        if bridge is None:
            yield "begin", state._replace(bridge=Bridge(state.epochs + 1), epochs=state.epochs + 1)
            return
        if state.kills < KILLS:
            yield "kill", state._replace(bridge=None, kills=state.kills + 1)
        yield from getattr(self, bridge.step)(state, bridge)

    def read_aside(self, state: State) -> Iterator[tuple[str, State]]:
        """Each machine reads the two streams as they come."""
        if state.has_other and OTHER not in state.members and state.bridge is not None:
            yield "re-send the other's", state._replace(members=(*state.members, OTHER))
        if state.has_other and OTHER not in state.there:
            yield "there: its own", state._replace(there=(*state.there, OTHER))
        behind = [one for batch in state.stream for one in batch.messages if one not in state.there]
        if behind:
            yield f"there: {behind[0]}", state._replace(there=(*state.there, behind[0]))

    # ---- recovery ----

    def drain(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        last = max(state.cursor, default=(0, -1))
        taken = bridge._replace(entries=state.cursor, applied=last[0], index=last[1] + 1, step="load")
        if self.mutant == "cursor before request":
            yield "drain", state._replace(bridge=taken, cursor=())
        else:
            yield "drain", state._replace(bridge=taken)

    def load(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if self.mutant == "inbox after re-send":
            yield "load", state._replace(bridge=bridge._replace(step="mark"))
            return
        loaded = bridge._replace(open=state.inbox, has_loaded=True, step="settle")
        yield "load", state._replace(bridge=loaded)

    def is_done(self, request: int, message: int) -> bool:
        """Whether a request is answered, and acknowledged, with that message of it."""
        return message == MESSAGES[request][0 if self.mutant == "answer at the first message" else -1]

    def request_of(self, state: State, entry: tuple[int, int]) -> int:
        """The request that is done with an entry of the cursor; 0: none."""
        batch = state.stream[entry[0] - 1]
        if not batch.epoch:
            return 0
        request = batch.request_at(entry[1])
        return request if self.is_done(request, batch.messages[entry[1]]) else 0

    def settle(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        for entry in bridge.entries:
            request = self.request_of(state, entry)
            if request in bridge.open:
                inbox = tuple(one for one in state.inbox if one != request)
                opened = tuple(one for one in bridge.open if one != request)
                yield f"ack {request}", state._replace(inbox=inbox, bridge=bridge._replace(open=opened))
                return
        last = (max(state.cursor),) if state.cursor else ()
        yield "settle", state._replace(cursor=last, bridge=bridge._replace(step="mark"))

    def mark(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        """Send the marker, behind this machine's last batch as it is now; again, where it was refused."""
        marker = Batch(bridge.epoch, 0, ())
        expected = last_of_here(state.stream)
        if marker in state.stream:
            yield "marked", state._replace(bridge=bridge._replace(expected=expected, step="run"))
        elif not any(one.batch == marker for one in state.travelling):
            travelling = (*state.travelling, Travelling(marker, expected))
            yield "mark", state._replace(travelling=travelling)

    # ---- running ----

    def run(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if bridge.to_note is not None:
            noted = bridge._replace(to_note=None)
            yield "note", state._replace(cursor=(*state.cursor, bridge.to_note), bridge=noted)
            return
        if bridge.to_ack:
            inbox = tuple(one for one in state.inbox if one != bridge.to_ack)
            opened = tuple(one for one in bridge.open if one != bridge.to_ack)
            yield f"ack {bridge.to_ack}", state._replace(inbox=inbox, bridge=bridge._replace(open=opened, to_ack=0))
            return
        if len(state.cursor) > 1:
            yield "drain cursor", state._replace(cursor=(max(state.cursor),))
        yield from self.take(state, bridge)
        yield from self.publish(state, bridge)
        yield from self.resend(state, bridge)

    def take(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if self.mutant == "inbox after re-send" and not bridge.has_loaded and not bridge.leads:
            return
        known = (*bridge.open, *bridge.published)
        new = tuple(one for one in state.inbox if one not in known)
        if new:
            yield "take", state._replace(bridge=bridge._replace(open=(*bridge.open, *new), has_loaded=True))

    def publish(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if bridge.waits_for is not None:
            if bridge.waits_for in state.stream:
                place = state.stream.index(bridge.waits_for) + 1
                published = (*bridge.published, *bridge.waits_for.requests)
                done = bridge._replace(waits_for=None, expected=place, published=published)
                yield "stored", state._replace(bridge=done)
            elif not any(one.batch == bridge.waits_for for one in state.travelling):
                again = Travelling(bridge.waits_for, bridge.expected)
                yield "again", state._replace(travelling=(*state.travelling, again))
            return
        waiting = tuple(one for one in bridge.open if one not in bridge.published)
        if waiting and (bridge.leads or self.mutant == "no epoch"):
            batch = Batch(bridge.epoch, bridge.number + 1, waiting)
            sent = bridge._replace(number=bridge.number + 1, waits_for=batch)
            yield (
                f"publish {waiting}",
                state._replace(bridge=sent, travelling=(*state.travelling, Travelling(batch, bridge.expected))),
            )

    def next_of(self, state: State, bridge: Bridge) -> tuple[int, int, Batch] | None:
        place, index = max(1, bridge.applied), bridge.index if bridge.applied else 0
        while place <= len(state.stream):
            batch = state.stream[place - 1]
            if index < max(1, len(batch.messages)):
                return place, index, batch
            place, index = place + 1, 0
        return None

    def resend(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        found = self.next_of(state, bridge)
        if found is None:
            return
        place, index, batch = found
        applied = bridge._replace(applied=place, index=index + 1)
        if not batch.requests:
            leads = bridge.leads or batch.epoch == bridge.epoch
            yield "read marker", state._replace(bridge=applied._replace(leads=leads))
            return
        message, request = batch.messages[index], batch.request_at(index)
        is_answered = bool(batch.epoch) and request in bridge.open and self.is_done(request, message)
        if is_answered:
            applied = applied._replace(to_ack=request)
        replied = (*state.replied, request) if is_answered else state.replied
        after = state._replace(members=(*state.members, message), replied=replied)
        if self.mutant == "cursor outside of the multicast":
            yield f"deliver {message}", after._replace(bridge=applied._replace(to_note=(place, index)))
        else:
            yield f"re-send {message}", after._replace(cursor=(*state.cursor, (place, index)), bridge=applied)


def faults(state: State) -> str:
    """What is wrong; an empty text for nothing."""
    order = [message for batch in state.stream for message in batch.messages]
    mine = [message for message in state.members if message in order]
    if len(set(state.members)) < len(state.members):
        return "doubled"
    if mine != order[: len(mine)] or are_opposite(state.members, state.there):
        return "disordered"
    if any(message not in state.members for request in state.replied for message in MESSAGES[request]):
        return "replied to before it is here"
    if state.synced and OTHER not in state.members:
        return "let go on before what it knew of is here"
    is_over = state.bridge is not None and state.bridge.step == "run" and state.bridge.leads and not state.travelling
    if is_over and state.asked == len(REQUESTS) and not state.inbox:
        if {message for request in REQUESTS for message in MESSAGES[request]} - {*state.members}:
            return "lost"
        if {*REQUESTS} - {*state.replied}:
            return "never answered"
    return ""


def are_opposite(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two messages stand in one order here and in another there."""
    common = [message for message in one if message in other]
    return common != [message for message in other if message in one]


def is_all_there(state: State) -> bool:
    """Whether all messages have come to the members here."""
    return set(state.members) == {one for messages in MESSAGES.values() for one in messages}


def search(
    model: Any, begin: Any, faults: Callable[[Any], str], may_end: Callable[[Any], bool] = lambda _: True
) -> tuple[int, str, list[str]]:
    """How many states there are; of the first that fails, why, and the actions that lead to it.

    A state that may not end, and in which nothing more happens, fails as well.
    """
    came_from: dict[Any, tuple[Any, str] | None] = {begin: None}
    layer = [begin]
    while layer:
        following = []
        for state in layer:
            n_actions = 0
            for name, reached in model.actions(state):
                n_actions += 1
                if reached in came_from:
                    continue
                came_from[reached] = state, name
                why = faults(reached)
                if why:
                    return len(came_from), why, path_to(reached, came_from)
                following.append(reached)
            if not n_actions and not may_end(state):
                return len(came_from), "lost, and nothing more happens", path_to(state, came_from)
        layer = following
    return len(came_from), "", []


def path_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> list[str]:
    names = []
    step = came_from[state]
    while step is not None:
        before, name = step
        names.append(name)
        step = came_from[before]
    return names[::-1]
