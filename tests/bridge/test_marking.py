# SPDX-License-Identifier: Apache-2.0
"""A bridge makes a group wide while a peer of its bus enters: it is a member here before, or asks the bridge.

What is between the core's own steps is in tests/c/test_group_steps.c.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import busq
import busq.aio
from busq import groups
from busq._port import wide_protocol
from busq.bridge.local import Local


@pytest.fixture
def bus() -> Iterator[busq.Bus]:
    with busq.Bus.create("marking", arena=16 << 20) as bus:
        yield bus
    busq.Bus.unlink("marking")


def enter(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.enter("prices", timeout=0)


def enter_as_task(bus: busq.Bus) -> None:
    async def main() -> None:
        async with busq.aio.join(bus, "alice") as alice:
            await alice.enter("prices", timeout=0)

    asyncio.run(main())


@pytest.mark.parametrize("enter", [enter, enter_as_task])
def test_one_that_found_no_mark_and_finds_the_group_closed_asks_the_bridge(
    bus: busq.Bus, monkeypatch: pytest.MonkeyPatch, enter: Callable[[busq.Bus], None]
) -> None:
    look = groups.wide_domain
    made: list[Local] = []

    def look_before_the_bridge_comes(*args: Any) -> str | None:
        found = look(*args)
        monkeypatch.setattr(groups, "wide_domain", look)
        made.append(Local(bus, "d", ("prices",)))
        return found

    monkeypatch.setattr(groups, "wide_domain", look_before_the_bridge_comes)
    with pytest.raises(busq.Unreachable):
        enter(bus)
    (here,) = made
    asked = [wide_protocol.read_request(one.data).what for one in here.take_requests()]
    here.close()
    assert asked == [wide_protocol.ENTER, wide_protocol.WITHDRAW]
    assert not bus.groups()["prices"].members


def test_a_bridge_ends_where_one_has_entered_as_it_came_and_leaves_no_mark(
    bus: busq.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = busq.Bus.create_queue
    with bus.join("alice") as alice, monkeypatch.context() as patch:

        def make_behind_alice(*args: Any) -> bool:
            alice.enter("prices")
            return make(*args)

        patch.setattr(busq.Bus, "create_queue", make_behind_alice)
        with pytest.raises(ValueError, match="alice, that entered before it was wide"):
            Local(bus, "d", ("prices",))
        assert "wide@prices" not in bus.peers()
        alice.leave("prices")


def test_one_that_is_in_leaves_a_group_that_is_about_to_be_wide(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("prices")
        bus.create_queue("wide@prices")
        alice.send("wide@prices", b"d")
        with pytest.raises(busq.BusqError):
            bob.enter("prices", timeout=0)
        alice.leave("prices")
        assert not bus.groups()["prices"].members


def enter_and_leave(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.enter("prices")
        alice.leave("prices")


class Killed(BaseException): ...


def test_a_mark_is_not_closed_before_it_says_of_which_domain(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    make = busq.Bus.create_queue
    seen: list[str] = []

    def make_before_alice(*args: Any) -> bool:
        made = make(*args)
        enter_and_leave(bus)
        seen.append(args[1])
        return made

    monkeypatch.setattr(busq.Bus, "create_queue", make_before_alice)
    Local(bus, "d", ("prices",)).close()
    assert seen == ["wide@prices"]
    assert [one.data for one in bus.peek("wide@prices")] == [b"d"]


def test_an_empty_mark_that_a_killed_bridge_left_closes_nothing(bus: busq.Bus) -> None:
    bus.create_queue("wide@prices")
    enter_and_leave(bus)
    Local(bus, "d", ("prices",)).close()
    with pytest.raises(busq.BusqError):
        enter(bus)


def test_a_bridge_that_fails_takes_back_what_it_marked(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    make = busq.Bus.create_queue

    def fail_at_the_second(*args: Any) -> bool:
        made = make(*args)
        if args[1] == "wide@costs":
            raise Killed
        return made

    monkeypatch.setattr(busq.Bus, "create_queue", fail_at_the_second)
    with pytest.raises(Killed):
        Local(bus, "d", ("prices", "costs"))
    enter_and_leave(bus)


@pytest.mark.parametrize("groups", [("prices", "costs"), ("costs", "prices")])
def test_a_bridge_makes_no_group_wide_where_one_has_members(bus: busq.Bus, groups: tuple[str, ...]) -> None:
    with bus.join("bob") as bob:
        bob.enter("costs")
        with pytest.raises(ValueError, match="bob, that entered before it was wide"):
            Local(bus, "d", groups)
        enter_and_leave(bus)


def test_a_bridge_does_not_go_on_with_a_member_that_an_older_one_left(bus: busq.Bus) -> None:
    with bus.join("bob") as bob:
        bob.enter("prices")
        bus.create_queue("wide@prices")
        bob.send("wide@prices", b"d")
        with pytest.raises(ValueError, match="bob, that entered before it was wide"):
            Local(bus, "d", ("prices",))
        bob.leave("prices")
    Local(bus, "d", ("prices",)).close()
