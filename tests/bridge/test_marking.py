# SPDX-License-Identifier: Apache-2.0
"""A bridge makes a group wide while a peer of its bus enters: it is a member here before, or asks the bridge.

What is between the core's own steps is in tests/c/test_group_steps.c.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import busq
import busq.aio
from busq._port import group_members, wide_protocol
from busq.bridge import local
from busq.bridge.errors import Ended
from busq.bridge.local import Local

HOLD = Local._hold_mark
MARKING = {"_mark_groups", "_hold_mark", "_is_marked", "_check_empty"}  # functions of local.py


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
    look = group_members.wide_domain
    made: list[Local] = []

    def look_before_the_bridge_comes(*args: Any) -> str | None:
        found = look(*args)
        monkeypatch.setattr(group_members, "wide_domain", look)
        made.append(Local(bus, "d", ("prices",)))
        return found

    monkeypatch.setattr(group_members, "wide_domain", look_before_the_bridge_comes)
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
    with bus.join("alice") as alice, monkeypatch.context() as patch:

        def hold_behind_alice(*args: Any) -> Any:
            alice.enter("prices")
            return HOLD(*args)

        patch.setattr(Local, "_hold_mark", hold_behind_alice)
        with pytest.raises(ValueError, match="alice, that entered before it was wide"):
            Local(bus, "d", ("prices",))
        assert not bus.peek("wide@prices")
        alice.leave("prices")
    Local(bus, "e", ("prices",)).close()


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
    seen: list[str] = []

    def hold_before_alice(*args: Any) -> Any:
        held = HOLD(*args)
        enter_and_leave(bus)
        seen.append(args[1])
        return held

    monkeypatch.setattr(Local, "_hold_mark", hold_before_alice)
    Local(bus, "d", ("prices",)).close()
    assert seen == ["prices"]
    assert [one.data for one in bus.peek("wide@prices")] == [b"d"]


def test_an_empty_mark_that_a_killed_bridge_left_closes_nothing(bus: busq.Bus) -> None:
    bus.create_queue("wide@prices")
    enter_and_leave(bus)
    Local(bus, "d", ("prices",)).close()
    with pytest.raises(busq.BusqError):
        enter(bus)


def test_a_bridge_that_fails_takes_back_what_it_marked(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_the_second(*args: Any) -> Any:
        if args[1] == "costs":
            raise Killed
        return HOLD(*args)

    monkeypatch.setattr(Local, "_hold_mark", fail_at_the_second)
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


class Standing(threading.Thread):
    """Makes a group wide, and stands still before a line of that until it may go on."""

    def __init__(self, bus: busq.Bus, domain: str, before: int) -> None:
        super().__init__(daemon=True)
        self._bus, self._domain, self._before, self._n_lines = bus, domain, before, 0
        self.stands, self.may_go_on = threading.Event(), threading.Event()
        self.made: Local | None = None

    def run(self) -> None:
        sys.settrace(self._trace)
        try:
            self.made = Local(self._bus, self._domain, ("prices",))
        except (ValueError, Ended):
            pass
        finally:
            sys.settrace(None)
            self.stands.set()

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != local.__file__ or frame.f_code.co_name not in MARKING:
            return None
        self._n_lines += event == "line"
        if event == "line" and self._n_lines == self._before:
            self.stands.set()
            self.may_go_on.wait()
        return self._trace

    @property
    def has_stood(self) -> bool:
        """There is such a line."""
        return self._n_lines >= self._before


def test_of_two_bridges_that_make_a_group_wide_at_once_one_does_wherever_each_stands_still(bus: busq.Bus) -> None:
    n_lines, is_over = 0, False
    while not is_over:
        n_lines += 1
        for other in itertools.count(1):
            one, two = Standing(bus, "d", n_lines), Standing(bus, "e", other)
            for thread in (one, two):
                thread.start()
                thread.stands.wait()
            for thread in (one, two):
                thread.may_go_on.set()
                thread.join()
            is_over = not one.has_stood
            (made,) = (thread.made for thread in (one, two) if thread.made)
            made.keep_name("m1")
            assert [message.data for message in bus.peek("wide@prices")] == [made.domain.encode(), b"m1"]
            made.close()
            bus.remove("wide@prices")
            if not two.has_stood:
                break
    assert n_lines > 15
