# SPDX-License-Identifier: Apache-2.0
"""A model of the views of one machine's members, and a search through all its executions.

A peer of the machine enters and sends, may leave, may die, and may come again in another life; put out, it enters
anew.  Another machine, whose member stays, sends one message, and tries once to put this one out, behind the word of it
that was read last.  Bridges are killed between any two steps.  What all other machines see follows from the stream
alone, so it is what this one is compared with.

What must hold: a peer gets the views and the messages that the stream makes, each once and in its order; each request
stands there once; no machine is put out that has spoken; nothing of one that is out stands behind that but a new epoch;
nothing of a dead peer stands behind its death; at the end all is there, and no dead one is a member.

A death, a machine put out and one kill at any step together make 5,209,589 states, searched to their end once without a
fault; that takes seven minutes and 3 GB, so the tests have two of the three at most.

`MUTANTS` leave out one rule each; the search must find an execution that fails for every one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import NamedTuple

ENTER, SEND, LEAVE, DEATH, OUT = "enter", "send", "leave", "death", "out"

MUTANTS = {
    "out without a fence": "a machine is put out wherever its last word stands",
    "out that fences nothing": "what puts a machine out keeps it from nothing",
    "own batch confused with the marker": "what puts out is taken for the batch whose name it has",
    "view before the multicast": "the members are written down a step before the view is re-sent",
    "view behind the multicast": "the members are written down a step behind it",
    "members not kept": "a successor begins without members",
    "enter without its number": "a view does not name the request that is done with it",
    "death first": "a death is published before what waits in the inbox",
    "death without its life": "a death ends whoever has the name",
    "members stay": "a machine that is put out keeps its members",
    "view for those in it": "a view does not go to the member that it is without",
}


class Request(NamedTuple):
    """What stands in the inbox."""

    life: int  # of the peer
    what: str
    number: int


class Batch(NamedTuple):
    """One place of the stream."""

    epoch: int  # 0: of the other machine
    number: int  # in the epoch; 0: the marker
    request: Request | None = None
    is_out: bool = False


class Travelling(NamedTuple):
    """A publication that has not arrived."""

    batch: Batch
    expected: int


class Bridge(NamedTuple):
    """The memory of one that lives."""

    epoch: int
    member: int  # the life that is a member; 0: none
    applied: int
    open: tuple[Request, ...]
    to_settle: tuple[Request, ...]  # requests that are done, by the cursor
    step: str = "settle"
    published: tuple[Request, ...] = ()
    number: int = 0
    expected: int = 0
    waits_for: Batch | None = None
    leads: bool = False
    to_ack: Request | None = None
    told: tuple[int, ...] = ()  # lives whose deaths were sent to the inbox
    to_note: int = -1  # in mutants: the members that are to be written down; -1: none


class State(NamedTuple):
    """All that the processes share, and the bridge's memory."""

    life: int = 1
    asked: int = 0  # in this life
    is_dead: bool = False
    inbox: tuple[Request, ...] = ()
    stream: tuple[Batch, ...] = ()
    travelling: tuple[Travelling, ...] = ()
    cursor: tuple[int, Request | None] = (0, None)  # the last entry, unless its request is acknowledged
    member: int = 0  # in the queue of views
    seen: tuple[tuple[int, str, int], ...] = ()  # by which life, what, at which place
    replied: tuple[Request, ...] = ()
    has_other: bool = False
    has_put_out: bool = False
    bridge: Bridge | None = None
    epochs: int = 0
    kills: int = 0


def last_of_here(stream: tuple[Batch, ...]) -> int:
    """The place of this machine's last batch, or of what puts it out."""
    return max((place for place, batch in enumerate(stream, 1) if batch.epoch), default=0)


def changed(member: int, batch: Batch, mutant: str = "") -> int:
    """The member behind a batch."""
    if batch.is_out:
        return member if mutant == "members stay" else 0
    request = batch.request
    if request is not None and request.what == ENTER:
        return request.life
    if request is not None and request.what == LEAVE:
        return 0
    if request is not None and request.what == DEATH and (request.life == member or mutant == "death without its life"):
        return 0
    return member


def events(member: int, behind: int, batch: Batch, place: int) -> list[tuple[int, str, int]]:
    """What peers get at a place: the old member, and the new one."""
    if member != behind:
        return [(life, "in" if life == behind else "out", place) for life in (member, behind) if life]
    is_message = not batch.epoch or (batch.request is not None and batch.request.what == SEND)
    return [(member, "message", place)] if is_message and member else []


class Model:
    """The actions, with one rule left out or none."""

    def __init__(self, mutant: str = "", kills: int = 1, happens: Collection[str] = (DEATH, OUT)) -> None:
        assert not mutant or mutant in MUTANTS
        self.mutant, self.kills, self.happens = mutant, kills, happens

    def actions(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self.peer(state)
        yield from self.other(state)
        for at, (batch, expected) in enumerate(state.travelling):
            stored = state._replace(travelling=state.travelling[:at] + state.travelling[at + 1 :])
            if self.last(state.stream) == expected or (batch.is_out and self.mutant == "out without a fence"):
                stored = stored._replace(stream=(*state.stream, batch))
            yield f"arrive {batch}", stored
        bridge = state.bridge
        if bridge is None:
            begun = Bridge(state.epochs + 1, state.member, state.cursor[0], state.inbox, state.cursor[1:])
            if self.mutant == "members not kept":
                begun = begun._replace(member=0)
            yield "begin", state._replace(bridge=begun, epochs=state.epochs + 1)
            return
        if state.kills < self.kills:
            yield "kill", state._replace(bridge=None, kills=state.kills + 1)
        yield from getattr(self, bridge.step)(state, bridge)

    def last(self, stream: tuple[Batch, ...]) -> int:
        """What a publication of this machine has to stand behind."""
        if self.mutant == "out that fences nothing":
            return max((place for place, one in enumerate(stream, 1) if one.epoch and not one.is_out), default=0)
        return last_of_here(stream)

    def peer(self, state: State) -> Iterator[tuple[str, State]]:
        if state.is_dead:
            if state.life == 1:
                yield "come again", state._replace(life=2, asked=0, is_dead=False)
            return
        if state.life == 1 and DEATH in self.happens:
            yield "die", state._replace(is_dead=True)
        is_out = [what for life, what, _ in state.seen if life == state.life][-1:] == ["out"]
        leaves = (LEAVE,) if LEAVE in self.happens else ()
        script = (ENTER, SEND, *leaves, ENTER) if state.life == 1 else (ENTER,)
        if state.asked < len(script) and (script[state.asked] != ENTER or not state.asked or is_out):
            request = Request(state.life, script[state.asked], state.asked + 1)
            yield f"ask {request}", state._replace(asked=state.asked + 1, inbox=(*state.inbox, request))

    def other(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.has_other:
            yield "other", state._replace(has_other=True, stream=(*state.stream, Batch(0, 1)))
        place = last_of_here(state.stream)
        if place and not state.has_put_out and OUT in self.happens:
            last = state.stream[place - 1]
            out = Travelling(Batch(last.epoch, last.number + 1, None, is_out=True), place)
            yield "put out", state._replace(has_put_out=True, travelling=(*state.travelling, out))

    # ---- recovery ----

    def settle(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        """Acknowledge the request of the cursor's entry: none before that was, so no older one is left."""
        done = bridge.to_settle[0] if bridge.to_settle else None
        inbox = tuple(one for one in state.inbox if one != done)
        opened = tuple(one for one in bridge.open if one != done)
        yield "settle", state._replace(inbox=inbox, bridge=bridge._replace(open=opened, to_settle=(), step="mark"))

    def mark(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        marker = Batch(bridge.epoch, 0)
        expected = self.last(state.stream)
        if marker in state.stream:
            place = state.stream.index(marker) + 1
            yield "marked", state._replace(bridge=bridge._replace(expected=place, step="run"))
        elif not any(one.batch == marker for one in state.travelling):
            yield "mark", state._replace(travelling=(*state.travelling, Travelling(marker, expected)))

    # ---- running ----

    def run(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if bridge.to_note >= 0:
            yield "note", state._replace(member=bridge.to_note, bridge=bridge._replace(to_note=-1))
            return
        if bridge.to_ack is not None:
            inbox = tuple(one for one in state.inbox if one != bridge.to_ack)
            opened = tuple(one for one in bridge.open if one != bridge.to_ack)
            yield f"ack {bridge.to_ack}", state._replace(inbox=inbox, bridge=bridge._replace(open=opened, to_ack=None))
            return
        new = tuple(one for one in state.inbox if one not in bridge.open)
        if new:
            yield "take", state._replace(bridge=bridge._replace(open=(*bridge.open, *new)))
        yield from self.look(state, bridge)
        yield from self.publish(state, bridge)
        yield from self.resend(state, bridge)

    def look(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        """Send the death of a member, or of one that enters, to the inbox: behind all that it has sent."""
        entering = {one.life for one in bridge.open if one.what == ENTER}
        for life in sorted({bridge.member, *entering} - {0, *bridge.told}):
            if life < state.life or state.is_dead:
                death = Request(life, DEATH, bridge.epoch)
                inbox = (death, *state.inbox) if self.mutant == "death first" else (*state.inbox, death)
                yield f"tell {death}", state._replace(inbox=inbox, bridge=bridge._replace(told=(*bridge.told, life)))

    def publish(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        batch = bridge.waits_for
        if batch is None:
            waiting = [one for one in bridge.open if one not in bridge.published]
            if self.mutant == "death first":
                waiting.sort(key=lambda one: one.what != DEATH)
            if waiting and bridge.leads:
                batch = Batch(bridge.epoch, bridge.number + 1, waiting[0])
                sent = bridge._replace(number=bridge.number + 1, waits_for=batch)
                travelling = (*state.travelling, Travelling(batch, bridge.expected))
                yield f"publish {waiting[0]}", state._replace(bridge=sent, travelling=travelling)
            return
        place = last_of_here(state.stream)
        last = state.stream[place - 1]
        is_confused = self.mutant == "own batch confused with the marker" and last[:2] == batch[:2]
        if batch in state.stream or is_confused:
            place = place if is_confused else state.stream.index(batch) + 1
            published = (*bridge.published, batch.request)
            done = bridge._replace(waits_for=None, expected=place, published=published)
            yield "stored", state._replace(bridge=done)
        elif not any(one.batch == batch for one in state.travelling):
            if last.is_out and self.mutant != "out that fences nothing":
                yield "find itself fenced", state._replace(bridge=None)
            else:
                again = Travelling(batch, bridge.expected)
                yield "again", state._replace(travelling=(*state.travelling, again))

    def resend(self, state: State, bridge: Bridge) -> Iterator[tuple[str, State]]:
        if bridge.applied == len(state.stream):
            return
        place = bridge.applied + 1
        batch = state.stream[place - 1]
        if batch.epoch and not batch.is_out and batch.request is None:
            leads = bridge.leads or batch.epoch == bridge.epoch
            yield "read marker", state._replace(bridge=bridge._replace(applied=place, leads=leads))
            return
        member, behind = bridge.member, changed(bridge.member, batch, self.mutant)
        if self.mutant == "view before the multicast" and state.member != behind:
            yield "write down", state._replace(member=behind)
            return
        request = batch.request
        is_asked = request in bridge.open
        to_note = behind if self.mutant == "view behind the multicast" and member != behind else -1
        is_named = self.mutant != "enter without its number" or member == behind
        applied = bridge._replace(applied=place, member=behind, to_ack=request if is_asked else None, to_note=to_note)
        told = [one for one in events(member, behind, batch, place) if one[0] == state.life and not state.is_dead]
        if self.mutant == "view for those in it":
            told = [one for one in told if one[1] != "out"]
        after = state._replace(
            seen=(*state.seen, *told),
            replied=(*state.replied, request) if is_asked and request else state.replied,
            member=state.member if to_note >= 0 else behind,
            cursor=(place, request if is_named else None),
            bridge=None if batch.is_out and bridge.leads else applied,
        )
        yield f"re-send {batch}", after


@functools.cache
def made_by(stream: tuple[Batch, ...]) -> tuple[str, list[tuple[int, str, int]], int]:
    """What is wrong with a stream; what peers are to get by it; and the member at its end."""
    requests = [batch.request for batch in stream if batch.request is not None]
    why = "doubled" if len(set(requests)) < len(requests) else ""
    member, is_out, dead = 0, False, set()
    due = []
    last = Batch(0, 0)  # of this machine
    for place, batch in enumerate(stream, 1):
        request = batch.request
        if batch.is_out and last[:2] != (batch.epoch, batch.number - 1):
            why = "put out, and has spoken"
        if is_out and batch.epoch and batch.number:
            why = "out, and not begun anew"
        if request is not None and request.what == SEND and request.life in dead:
            why = "sent behind its death"
        dead |= {request.life} if request is not None and request.what == DEATH else set()
        is_out = batch.is_out or (is_out and not batch.epoch)
        last = batch if batch.epoch else last
        behind = changed(member, batch)
        due += events(member, behind, batch, place)
        member = behind
    return why, due, member


def faults(state: State) -> str:
    """What is wrong; an empty text for nothing."""
    why, due, member = made_by(state.stream)
    mine = [one for one in due if one[0] == state.life]
    seen = [one for one in state.seen if one[0] == state.life]
    if why or seen != mine[: len(seen)]:
        return why or "seen otherwise"
    return what_is_missing(state, member, mine, seen) if is_quiet(state) else ""


def is_quiet(state: State) -> bool:
    """Whether a bridge runs, and has nothing to do."""
    bridge = state.bridge
    if bridge is None or not bridge.leads or state.travelling or bridge.applied < len(state.stream):
        return False
    return not any(Model().run(state, bridge))  # by the rules, and not a mutant's


def what_is_missing(state: State, member: int, mine: list[object], seen: list[object]) -> str:
    if not state.is_dead and seen != mine:
        return "lost"
    if member and (member < state.life or state.is_dead):
        return "a dead one stays a member"
    n_asked = sum(one.life == state.life and one.what != DEATH for one in state.replied)
    return "never answered" if n_asked < state.asked and not state.is_dead else ""
