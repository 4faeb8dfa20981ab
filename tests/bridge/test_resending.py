# SPDX-License-Identifier: Apache-2.0
"""What a bridge re-sends on its bus, without a server: the test hands it what stands in the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

import busq
from busq._native import _core as core
from busq._port import wide_protocol
from busq._port.wide import client_of
from busq._port.wide_protocol import DEATH, ENTER, MESSAGE, Tail
from busq._port.wide_views import Change, Group, Member, write_groups, write_view
from busq.bridge import batches, local
from busq.bridge.batches import Batch, Item
from busq.bridge.bridge import Bridge, Settings
from busq.bridge.local import Local
from busq.bridge.nats_stream import Stored
from busq.bridge.views import death_of

OTHERS = b"other bus".ljust(16)
Make = Callable[[], Local]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes this machine's side of a bridge, and its successors."""
    made: list[Local] = []
    with busq.Bus.create("resending", arena=getattr(request, "param", 16 << 20)) as bus:

        def make() -> Local:
            if made:
                made[-1].close()
            made.append(Local(bus, "d", ("prices",)))
            return made[-1]

        yield make
        made[-1].close()
    busq.Bus.unlink("resending")


def stored(place: int, *items: Item, kind: int = batches.DATA, machine: str = "m2", bus_id: bytes = OTHERS) -> Stored:
    return Stored(place, machine, batches.encode(Batch(kind, bus_id, 0, place, 0, batches.NO_DIGEST, 0, items)))


def entering(name: str, target: int) -> Item:
    return Item(ENTER, 5, 1, name, "prices", 1, wide_protocol.whole_body(target.to_bytes(8, "little")))


def apply(here: Local, *places: Stored) -> None:
    """Begin a bridge, and give it what it reads."""
    bridge = Bridge(here, None, Settings("m1"))
    bridge.recover()

    async def main() -> None:
        for place in places:
            await bridge._apply(place)

    asyncio.run(main())


def begun(here: Local) -> Stored:
    return stored(1, kind=batches.NEW, machine="m1", bus_id=here.bus_id)


def tails(here: Local) -> list[Tail]:
    """What stands in the cursor, the last entry of all as well."""
    here.close()
    with here.bus.join(here.cursor.name, resume=True, durable=True) as cursor:
        found = cursor.recv_many(1000, timeout=0, ack=True)
        return [wide_protocol.read_tail(core.wide_tail(one)) for one in found]


def test_what_comes_to_no_member_here_is_of_no_view_in_the_recording(make: Make) -> None:
    here = make()
    with here.bus.join("alice") as alice:
        three = Item(MESSAGE, 5, 2, "bob", "prices", 3, b"\1\0\0\0" * 3 + b"abc")
        apply(
            here,
            *(begun(here), stored(2, entering("bob", 7)), stored(3, three)),
            *(stored(4, entering("alice", core.target(alice)), machine="m1", bus_id=here.bus_id), stored(5, three)),
        )
        assert [(one.place, one.nth, bool(one.view)) for one in tails(here)] == [
            *((1, local.WHOLE, False), (2, 0, False), (3, 2, False)),
            *((4, 0, True), (5, 0, True), (5, 1, True), (5, 2, True)),
        ]


def test_a_death_that_was_gone_through_stands_in_the_cursor_once(make: Make) -> None:
    here = make()
    dead = Member("m2", "bob", 5, 7)
    death = stored(3, Item(DEATH, 6, 1, "bridge@d", "", 1, wide_protocol.whole_body(death_of(dead))))
    apply(here, begun(here), stored(2, entering("bob", 7)), death)
    again = make()
    apply(again, death)
    assert [one.place for one in tails(again)].count(3) == 1


def test_a_durable_peer_that_resumes_gets_its_replies(make: Make) -> None:
    here = make()
    item = Item(MESSAGE, 0, 1, "alice", "prices", 1, wide_protocol.whole_body(b"5"))
    targets = set()
    for place in (1, 2):
        with here.bus.join("alice", resume=True, durable=True) as alice:
            targets.add(core.target(alice))
            replies = client_of(alice).replies

            async def resend(to: list[str | int], place: int) -> None:
                tail = Tail(place, 0, 7, 1, 1, MESSAGE, True, False, bytes(16), "m1/alice")
                assert [n async for n in here.resend(item, (0, 1), tail, to)] == [1]

            asyncio.run(resend(here.receivers([], replies.name), place))
            assert replies.recv(timeout=0).data == b"5"
    assert len(targets) == 1


@pytest.mark.parametrize("make", [1 << 20], indirect=True)
async def test_views_that_fill_the_memory_are_taken_away(make: Make) -> None:
    here = make()
    groups = {"prices": Group(2, (Member("m2", "b" * 100_000, 5, 7),))}
    written = write_view(groups, Change("prices", groups["prices"].members, (), False), "m1")
    view = Item(wide_protocol.VIEW, 0, 0, "", "prices", 1, wide_protocol.whole_body(written))
    for place in range(1, 20):
        tail = Tail(place, 0, 0, 0, 1, wide_protocol.VIEW, False, False, bytes(16), "m1")
        assert [n async for n in here.resend(view, (0, 1), tail, [here.cursor.name, here.views.name])] == [1]
        await here.note_progress(tail._replace(what=wide_protocol.PROGRESS), write_groups(groups))


def test_a_bus_keeps_its_machine_s_name(make: Make) -> None:
    make().keep_name("m1")
    again = make()
    again.keep_name("m1")
    with pytest.raises(ValueError, match="is machine 'm1' of domain 'd', and can't be 'm9' as well"):
        again.keep_name("m9")
    again.close()
    for group, domain in (("other", "d"), ("apart", "e")):
        one = Local(again.bus, domain, (group,))
        if domain == "d":  # also where the group is another
            with pytest.raises(ValueError, match="'m9' as well"):
                one.keep_name("m9")
        else:
            one.keep_name("m9")
        one.close()
    assert [one.data for one in again.bus.peek("wide@prices")] == [b"d", b"m1"]
