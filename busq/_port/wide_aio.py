# SPDX-License-Identifier: Apache-2.0
"""Sending to a group of several machines from tasks of an event loop: as `wide`, but what waits is a task.

Requests are made, counted and given up as there.  Replies to all tasks of a peer come to one queue: a task that finds
some there gives each to the call that it answers, and wakes its task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port import wide
from busq._port.deadline import Deadline
from busq._port.event_loops import queues_here
from busq._port.readiness import Readiness
from busq._port.wait_queues import WaitQueues
from busq._port.wide_progress import Asked, Progress
from busq._port.wide_protocol import MESSAGE, REFUSED, WITHDRAW, Answer, number_in_tail, read_answer, request_head


class _Call:
    """One call of a task: what of it is under way, and what became of the rest.

    For `WaitQueues.receive_turn` it is a request, whose reply is whatever became known.
    """

    def __init__(self, under_way: dict[int, Asked]) -> None:
        self.under_way = under_way
        self.fates: dict[int, Answer] = {}
        self.reply: Any = None  # there is something new
        self.wake: Any = None
        self.is_lost = False

    def note(self) -> None:
        self.reply = True
        if self.wake is not None:
            self.wake()


class AioClient:
    """What the tasks of one peer have under way to wide groups."""

    def __init__(self, peer: Any, port: Any, spin_s: float | None) -> None:
        self._peer, self._port = peer, port  # of busq.aio, and of busq
        self._client = wide.client_of(port)
        self._calls: dict[int, _Call] = {}  # by the numbers of their requests
        self._queues: WaitQueues | None = None
        self._spin_s = spin_s

    def close(self) -> None:
        """Wake all tasks: the peer is about to be closed."""
        if self._queues is not None:
            self._queues.close()

    async def send(self, bundle: wide.Bundle, deadline: Deadline, what: int = MESSAGE) -> None:
        """Send messages to a wide group, and wait until they were re-sent here.

        The exception that ends it has the number that were sent.
        """
        progress = Progress()
        try:
            await self._send(bundle, deadline, progress, what)
        except BaseException as error:
            progress.report(error)
            raise

    async def _send(self, bundle: wide.Bundle, deadline: Deadline, progress: Progress, what: int) -> None:
        under_way, requests = self._client.requests([bundle], what)
        if self._queues is None:
            self._queues = queues_here(Readiness(self._client.replies), self._spin_s)
        call = _Call(under_way)
        numbers = tuple(under_way)
        self._calls |= dict.fromkeys(numbers, call)
        progress.ask(under_way)
        try:
            await self._ask(requests, deadline, progress, bundle.group)
            await self._wait(call, deadline, progress)
        except BaseException:
            self._withdraw(call)  # of a task that is cancelled: what is not published so far is not sent
            raise
        finally:
            for number in numbers:
                del self._calls[number]
        core.follow(self._port, self._client.replies)

    async def _ask(self, requests: Iterable[Any], deadline: Deadline, progress: Progress, group: str) -> None:
        try:
            await self._peer.send_many(requests, timeout=deadline.left_s())
        except BaseException as error:
            progress.not_asked(getattr(error, "sent", 0))
            if isinstance(error, errors.BusqError):
                raise self._client.no_bridge(error, group) from None
            raise

    async def _wait(self, call: _Call, deadline: Deadline, progress: Progress) -> None:
        while call.under_way:
            await self._take(call, deadline)
            refused = [one for one in call.fates.values() if one.what == REFUSED]
            if refused:
                progress.never({one.number for one in refused})
                call.under_way = {}
                raise ValueError(refused[0].text)
            if deadline.left_ns() == 0 and call.under_way:
                await self._give_up(call)
                if call.under_way:  # otherwise the last ones came meanwhile
                    fates = {number: fate for number, fate in call.fates.items() if number in call.under_way}
                    error = wide.unreachable(call.under_way, fates, progress)
                    call.under_way = {}
                    raise error

    async def _take(self, call: _Call, deadline: Deadline) -> None:
        """Wait until something new is known of a call, or the time is over."""
        assert self._queues is not None
        with contextlib.suppress(errors.Empty):
            await self._queues.receive_turn(deadline, False, call)
        call.reply = None
        try:
            messages = self._client.replies.recv_many(wide.UNDER_WAY_MAX, timeout=0)
        except errors.Empty:
            return
        for message in messages:
            tail = core.wide_tail(message)
            number = read_answer(message.data).number if tail is None else number_in_tail(tail)
            its = self._calls.get(number)
            if its is None:
                continue  # its task was cancelled
            if tail is None:
                its.fates[number] = read_answer(message.data)
            else:
                its.under_way.pop(number, None)
            if its is not call:
                its.note()

    async def _give_up(self, call: _Call) -> None:
        """Withdraw what is under way, and wait a moment to learn what became of it."""
        deadline = Deadline(wide.GIVE_UP_S)
        self._withdraw(call)
        with contextlib.suppress(errors.BusqError):
            while call.under_way.keys() - call.fates.keys() and deadline.left_ns():
                await self._take(call, deadline)

    def _withdraw(self, call: _Call) -> None:
        replies = self._client.replies
        with contextlib.suppress(errors.BusqError):  # what is not known is open
            for number in reversed(list(call.under_way)):
                head = request_head(WITHDRAW, number, "", replies.name)
                self._port.send(call.under_way[number].inbox, head, timeout=0)
