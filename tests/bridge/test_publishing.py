# SPDX-License-Identifier: Apache-2.0
"""What a bridge makes of a stream's answers, without a server: none of them stores a request twice."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from busq._port import wide_protocol
from busq._port.wide_views import Group, Groups, Marker, Member, read_groups, write_groups
from busq.bridge import batches
from busq.bridge.bridge import Bridge, Settings, put_out
from busq.bridge.errors import Fenced
from busq.bridge.nats_stream import Again, Moved, Stored, StreamFull
from busq.bridge.notes import note
from busq.bridge.views import Views, out_of

BUS_ID = b"b" * 16


class Stream:
    """One machine's batches, stored behind the place that is expected; `answers` come in place of the true ones.

    `lost`: it is stored, and the answer does not come.  `gone`: it is not, and none comes.  `full`: refused before the
    place is compared, as by a cluster whose server is short of memory or disk.
    """

    def __init__(self, *answers: str) -> None:
        self.stored: list[bytes] = []
        self.left_bytes = self.bytes_max = 1 << 20
        self.n_looks = 0
        self._answers: Iterator[str] = iter(answers)

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        answer = next(self._answers, "")
        if answer == "gone":
            raise Again("no answer")
        if answer == "full":
            raise StreamFull("insufficient resources")
        if expected != len(self.stored):
            raise Moved
        self.stored.append(payload)
        if answer == "lost":
            raise Again("no answer")
        return len(self.stored)

    async def room(self) -> tuple[int, int]:
        self.n_looks += 1
        return self.left_bytes, self.bytes_max

    async def last(self, machine: str) -> Stored | None:
        return Stored(len(self.stored), machine, self.stored[-1]) if self.stored else None


def bridge_of(stream: Stream, members: Groups | None = None, **local: Any) -> Bridge:
    """Make a bridge on a bus that is not there."""
    known: Any = SimpleNamespace(bus_id=BUS_ID, domain="d", groups=("prices",), last_tail=None, members=lambda: members)
    known.__dict__.update(local)
    return Bridge(known, stream, Settings("m1"))


ITEM = batches.Item(0, 7, 9, "alice", "prices", 1, b"\1\0\0\0" + b"5")


def publish(stream: Stream) -> int:
    """Publish one request; return the place of its batch, 0 for none."""
    return asyncio.run(bridge_of(stream)._publish(batches.DATA, (ITEM,)))


@pytest.mark.parametrize(
    ("answers", "place", "stored"),
    [
        pytest.param([], 1, 1, id="it-is-stored"),
        pytest.param(["lost"], 1, 1, id="the-answer-is-lost"),
        pytest.param(["full"], 0, 0, id="there-is-no-room"),
        pytest.param(["lost", "full"], 1, 1, id="the-answer-is-lost-and-then-there-is-no-room"),
        pytest.param(["gone", "full"], 0, 1, id="it-may-come-later-and-then-there-is-no-room"),
        pytest.param(["gone", "full", "lost"], 2, 2, id="and-the-answer-of-what-takes-its-place-is-lost"),
    ],
)
def test_a_batch_is_given_up_only_where_it_is_not_stored(answers: list[str], place: int, stored: int) -> None:
    stream = Stream(*answers)
    assert (publish(stream), len(stream.stored)) == (place, stored)


def test_servers_that_store_nothing_are_noted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("busq.bridge.bridge._AGAIN_MAX_S", 0.1)
    assert publish(Stream(*["gone"] * 4)) == 1
    assert capsys.readouterr().err == "busq bridge: domain 'd': the servers store nothing: no answer\n"


def test_what_puts_a_machine_out_is_not_taken_for_its_next_batch() -> None:
    stream = Stream()
    last = batches.Batch(batches.TICK, BUS_ID, 0, 0, 0, batches.NO_DIGEST, 0)
    asyncio.run(put_out(stream, Stored(0, "m1", b""), last))
    with pytest.raises(Fenced):
        publish(stream)
    assert len(stream.stored) == 1


def test_one_that_is_put_out_first_lets_its_reader_tell_the_members() -> None:
    stream, told = Stream(), []

    async def resend(item: batches.Item, part: tuple[int, int], tail: Any, to: list[Any]) -> Any:
        told.append(item.what)
        yield part[1]

    members = {"prices": Group(1, (Member("m1", "ann", 5, 7),))}
    local = {"receivers": lambda targets, _: targets, "resend": resend, "drop_old_views": lambda: None}
    bridge = bridge_of(stream, members, note_progress=nothing, views=SimpleNamespace(name="views"), **local)
    last = batches.Batch(batches.TICK, BUS_ID, 0, 0, 0, batches.NO_DIGEST, 0)

    async def reads() -> None:
        await bridge._apply(began(1))
        bridge._views.first = 1
        await put_out(stream, Stored(0, "m1", b""), last)
        publishing = asyncio.ensure_future(bridge._publish(batches.TICK))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not publishing.done()
        publishing.cancel()
        await bridge._apply(Stored(2, "m1", stream.stored[-1]))

    with pytest.raises(Fenced):
        asyncio.run(reads())
    assert told == [wide_protocol.VIEW]


class Remembering(Stream):
    """Knows what was stored by its id, also when it was taken away: then it is not stored again."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, int] = {}

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        if name not in self.ids:
            self.ids[name] = await super().publish(machine, payload, len(self.stored), name)
        return self.ids[name]


def test_a_bridge_that_begins_anew_is_not_taken_for_one_whose_word_was_taken_away() -> None:
    stream = Remembering()
    assert [asyncio.run(bridge_of(stream)._begin_epoch()) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(("low", "place"), [(9, 5), (3, 3)])
def test_what_a_machine_needs_that_came_while_one_looked_is_not_taken_away(low: int, place: int) -> None:
    word = batches.encode(batches.Batch(batches.TICK, BUS_ID, 1, 9, 0, batches.NO_DIGEST, low))
    taken: list[int] = []

    class Looked(Stream):
        async def machines(self) -> tuple[list[str], int]:
            return ["m1"], 5  # another machine begins at place 6

        async def last(self, machine: str) -> Stored:
            return Stored(10, machine, word)

        async def purge_below(self, place: int) -> None:
            taken.append(place)

    asyncio.run(bridge_of(Looked(), {})._make_room())
    assert taken == [place]


@pytest.mark.parametrize("body", [b'["ann", Infinity]', b"[" * 100_000], ids=["infinite", "deep"])
def test_a_request_of_a_stranger_ends_no_bridge(body: bytes) -> None:
    bridge = bridge_of(Stream(), {})
    bridge._load([asked(wide_protocol.DEATH, 1, body)])
    assert not bridge._open


def test_a_full_disk_behind_what_is_noted_ends_no_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full, write_through=True))
        note("not written")
        monkeypatch.undo()


def asked(what: int, number: int, data: bytes) -> Any:
    """A request of alice's, as it lies in the inbox."""
    written = wide_protocol.request_head(what, number, "prices", "reply", (len(data),)) + data
    return SimpleNamespace(data=written, sender="alice", sender_life=7, ack=lambda: None)


def began(place: int) -> Stored:
    """The word with which this machine's bridge begins."""
    batch = batches.Batch(batches.NEW, BUS_ID, 0, 0, 0, batches.NO_DIGEST, 0)
    return Stored(place, "m1", batches.encode(batch))


async def nothing(*_: Any) -> None:
    pass


async def while_it_publishes(bridge: Bridge, then: Any) -> None:
    publishes = asyncio.ensure_future(bridge._publishes())
    await then
    for _ in range(20):
        await asyncio.sleep(0)
    publishes.cancel()


class AskedStream(Stream):
    """Where another machine asks for the members behind the first batch."""

    bridge: Bridge

    async def publish(self, *given: Any) -> int:
        place = await super().publish(*given)
        if place == 1:
            self.bridge._views.hear_question(5, "m2")
        return place


def test_a_question_is_answered_between_requests_that_wait() -> None:
    stream = AskedStream()
    stream.bridge = bridge = bridge_of(stream, {}, note_progress=nothing)
    bridge._load([asked(wide_protocol.MESSAGE, number, bytes(200_000)) for number in range(3)])
    asyncio.run(while_it_publishes(bridge, bridge._apply(began(2))))
    kinds = [batches.decode(one).kind for one in stream.stored]
    assert kinds == [batches.DATA, batches.MEMBERS, batches.DATA, batches.DATA]


def test_a_marker_is_published_once_a_successor_would_know_the_members_as_well() -> None:
    stream, before = Stream(), []

    async def note_progress(tail: Any, members: bytes | None) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        if members:
            before.extend(stream.stored)

    bridge = bridge_of(stream, note_progress=note_progress)
    item = batches.Item(wide_protocol.VIEW, 0, 0, "", "", 1, wide_protocol.whole_body(write_groups({})))
    seen = batches.digest_of(began(2).payload)
    answer = batches.Batch(batches.MEMBERS, b"o" * 16, 0, 0, 2, seen, 0, (item,))

    async def reads() -> None:
        await bridge._apply(began(2))
        bridge._load([asked(wide_protocol.ENTER, 1, bytes(8))])
        await bridge._apply(Stored(3, "m2", batches.encode(answer)))

    asyncio.run(while_it_publishes(bridge, reads()))
    assert [batches.decode(one).kind for one in before] == [batches.ASK]
    assert [batches.decode(one).kind for one in stream.stored] == [batches.ASK, batches.DATA]


def test_none_enters_where_no_more_members_fit_into_a_message() -> None:
    stream, answers = Stream(), []
    members = {"prices": Group(2, (Member("m2", "b" * 200_000, 5, 7),))}

    def answer(_: Any, what: int, text: str, instead: str) -> bool:
        answers.append((what, text))
        return True

    bridge = bridge_of(stream, members, note_progress=nothing, answer=answer)
    bridge._load([asked(wide_protocol.ENTER, 1, bytes(8)), asked(wide_protocol.MESSAGE, 2, b"5")])
    asyncio.run(while_it_publishes(bridge, bridge._apply(began(1 << 20))))
    ((what, text),) = answers
    assert what == wide_protocol.REFUSED
    assert "expected that others leave first" in text
    (batch,) = map(batches.decode, stream.stored)
    assert [item.number for item in batch.items] == [2]


def test_a_refusal_is_answered_before_it_is_forgotten_and_again_where_there_is_no_room() -> None:
    stream, steps, has_room = Stream(), [], [True, False]

    def answer(request: Any, what: int, text: str, instead: str) -> bool:
        steps.append(f"{what == wide_protocol.REFUSED} {instead} {'too large' in text}")
        return has_room.pop()

    bridge = bridge_of(stream, {}, note_progress=nothing, answer=answer, tell_deaths=lambda _: None)
    request = asked(wide_protocol.MESSAGE, 1, bytes(batches.ITEMS_BYTES_MAX))
    request.ack = lambda: steps.append("forgotten")

    async def runs() -> None:
        tasks = [asyncio.ensure_future(one) for one in (bridge._publishes(), bridge._looks())]
        await bridge._apply(began(2))
        bridge._load([request])
        while bridge._open:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()

    asyncio.run(asyncio.wait_for(runs(), 60))
    assert steps == ["True alice True"] * 2 + ["forgotten"]
    assert not stream.stored


def test_what_a_predecessor_has_stored_is_not_refused() -> None:
    request = asked(wide_protocol.MESSAGE, 1, b"5")
    bridge = bridge_of(Stream(), {}, groups=("other",), answer=None)
    bridge._load([request])
    assert [asked.request.number for asked in bridge._open.values()] == [1]
    strange = asked(wide_protocol.WITHDRAW, 1, b"")
    strange.data = strange.data.replace(b"reply", b"@eply")
    bridge._load([strange])
    assert bridge._open


def test_a_machine_that_answers_itself_knows_who_has_entered_since() -> None:
    views = Views("m1", None)
    ann, bob = Member("m2", "ann", 5, 7), Member("m3", "bob", 6, 8)
    for place, member in enumerate((ann, bob), start=4):
        assert views.change(place, "prices", Marker(wide_protocol.ENTER, *member)) is None
    assert views.change(6, "", out_of("m3")) is None
    assert read_groups(views.encoded()) == {"prices": Group(6, (ann,))}
    assert views.hear_answer(5, views.encoded())
    assert views.targets("prices") == []
    assert read_groups(views.encoded()) == {"prices": Group(6, (ann,))}


def test_members_of_a_group_that_the_bridge_runs_without_get_its_messages() -> None:
    sent: list[Any] = []

    async def resend(item: batches.Item, part: tuple[int, int], tail: Any, to: list[int]) -> Any:
        sent.extend(to)
        yield part[1]

    members = {"other": Group(1, (Member("m1", "ann", 5, 7),))}
    bridge = bridge_of(Stream(), members, receivers=lambda targets, _: targets, resend=resend)
    item = batches.Item(wide_protocol.MESSAGE, 6, 1, "bob", "other", 1, wide_protocol.whole_body(b"5"))
    batch = batches.Batch(batches.DATA, b"o" * 16, 0, 0, 0, batches.NO_DIGEST, 0, (item,))
    asyncio.run(bridge._apply(Stored(2, "m2", batches.encode(batch))))
    assert set(sent) == {7}
