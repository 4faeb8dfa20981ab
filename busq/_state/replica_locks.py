# SPDX-License-Identifier: Apache-2.0
"""Ready-made replicas that processes wait at: a lock, an election, and a barrier.

What waits is written once, as a coroutine with `calls`, and serves threads and event loops (`waits`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Coroutine, Iterator
from typing import Any

from busq import errors
from busq._port.arguments import integer
from busq._port.deadline import Deadline
from busq._state.replica_base import Replica, command
from busq._state.replica_wide import open_error
from busq._state.waits import waits

__all__ = ["Barrier", "Election", "Lock"]

_tickets = itertools.count(1)


class _NoRoomError(errors.Empty):
    """The command was not sent: there is nothing to withdraw."""


async def _in_time(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a command; where it finds no room, what it begins has not come before the timeout."""
    try:
        return await call
    except errors.Full:
        raise _NoRoomError(
            "the command found no room before the timeout: a member takes no messages; is it stopped?"
        ) from None


class Lock(Replica):
    """A lock that one of several processes holds at a time; a holder that dies has released it.

    Processes get it in the order in which they asked.  Any number of threads of a process may ask.  A holder that is
    merely stopped goes on holding it.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-lock") as bus, busq.replica.Lock.join(bus, "printer", member="ann") as lock:
    ...     with lock.held(timeout=5) as number:
    ...         number, lock.holder
    ...     lock.holder is None
    (1, 'ann')
    True
    >>> busq.Bus.unlink("doc-replica-lock")
    """

    def __init__(self) -> None:
        self.row: list[list[Any]] = []  # [member, ticket] of each that has asked; the first holds it
        self.number = 0  # of the holdings so far

    @property
    def holder(self) -> str | None:
        """The member that holds it, as of what was applied here; None if it is free."""
        row = self.row
        return row[0][0] if row else None

    @waits
    async def acquire(self, calls: Any, timeout: float | None = None) -> int:
        """Wait until this process holds it; returns the number of this holding, higher than any before.

        A program that guards something outside of the bus hands that number along: a request with a lower number than
        one before it comes late, from a former holder.

        Parameters: `timeout`, how many seconds to wait: None waits for ever, 0 takes it if it is free.

        Errors: Empty after the timeout: it waits no more; ShutDown, ForkedHandle, Diverged; ValueError, TypeError.
        """
        deadline = Deadline(timeout)
        mine: list[Any] = [self.member, next(_tickets)]
        is_settled = False  # it holds the lock, or has not asked
        try:
            await _in_time(calls.call("_ask", *mine, deadline=deadline))
            if self.row[:1] != [mine]:
                await calls.wait_for(lambda: self.row[:1] == [mine], deadline.left_s())
            is_settled = True
            return self.number
        except _NoRoomError:
            is_settled = True
            raise
        finally:
            if not is_settled:
                with contextlib.suppress(errors.ShutDown):
                    self._busq_withdraw(mine)

    @waits
    async def release(self, calls: Any) -> None:
        """Let the next one have it; also where this call is cancelled, or ended by an exception, while it waits.

        Errors: RuntimeError if this process does not hold it.
        """
        row = self.row[:1]
        if not row or row[0][0] != self.member:
            raise RuntimeError(f"{self.holder or 'nobody'} holds this lock, and not {self.member}")
        is_settled = False
        try:
            await calls.call("_withdraw", *row[0])
            is_settled = True
        finally:
            if not is_settled:
                with contextlib.suppress(errors.ShutDown):
                    self._busq_withdraw(row[0])

    @contextlib.contextmanager
    def held(self, timeout: float | None = None) -> Iterator[int]:
        """Hold it during a block: `with lock.held()`; the block gets the number of the holding.

        Parameters: `timeout`, as in `acquire`.
        """
        number = self.acquire(timeout)
        try:
            yield number
        finally:
            self.release()

    @command
    def _ask(self, member: str, ticket: int) -> None:
        self.row.append([member, ticket])
        if len(self.row) == 1:
            self.number += 1

    @command
    def _withdraw(self, member: str, ticket: int) -> None:
        self._keep([one for one in self.row if one != [member, ticket]])

    def _keep(self, row: list[list[Any]]) -> None:
        self.number += bool(row and row[0] != self.row[0])
        self.row = row

    def _busq_begin(self, key: int) -> None:
        self.number = key

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Release what the dead held."""
        self._keep([one for one in self.row if one[0] in members])


class Election(Replica):
    """A leader of several processes: the candidate that has stood longest, and the next one when it dies.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-election") as bus:
    ...     with busq.replica.Election.join(bus, "boss", member="ann") as ann:
    ...         with busq.replica.Election.join(bus, "boss", member="bob") as bob:
    ...             ann.lead(), bob.stand(), bob.leader, ann.resign(), bob.lead(timeout=5), bob.term
    (1, None, 'ann', None, 2, 2)
    >>> busq.Bus.unlink("doc-replica-election")
    """

    def __init__(self) -> None:
        self.candidates: list[str] = []  # in the order in which they stood; the first leads
        self.term = 0  # grows whenever another one begins to lead

    @property
    def leader(self) -> str | None:
        """The member that leads, as of what was applied here; None without a candidate."""
        candidates = self.candidates
        return candidates[0] if candidates else None

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, as of what was applied here."""
        return self.leader == self.member

    @waits
    async def stand(self, calls: Any) -> None:
        """Become a candidate, behind the others; a candidate keeps its place."""
        await calls.call("_stand", self.member)

    @waits
    async def resign(self, calls: Any) -> None:
        """Be no candidate any more; the next one leads."""
        await calls.call("_resign", self.member)

    @waits
    async def lead(self, calls: Any, timeout: float | None = None) -> int:
        """Stand, and wait until this process leads; returns the term, higher than that of any leader before.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout: it still stands, unless there was no room for that; ShutDown, ForkedHandle,
        Diverged; ValueError, TypeError.
        """
        deadline = Deadline(timeout)
        await _in_time(calls.call("_stand", self.member, deadline=deadline))
        if not self.is_leader:
            await calls.wait_for(lambda: self.is_leader, deadline.left_s())
        return self.term

    @command
    def _stand(self, member: str) -> None:
        if member not in self.candidates:
            self._keep([*self.candidates, member])

    @command
    def _resign(self, member: str) -> None:
        self._keep([one for one in self.candidates if one != member])

    def _keep(self, candidates: list[str]) -> None:
        self.term += bool(candidates and candidates[:1] != self.candidates[:1])
        self.candidates = candidates

    def _busq_begin(self, key: int) -> None:
        self.term = key

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Let the next one lead where the leader has died."""
        self._keep([one for one in self.candidates if one in members])


class Barrier(Replica):
    """A place where a number of callers wait for each other, again and again; one that dies waiting does not count.

    Parameters: `parties`, their number, 1 or more, the same at all replicas; otherwise joining raises ValueError.

    >>> import busq, threading
    >>> with busq.Bus.create("doc-replica-barrier") as bus:
    ...     here, there = (busq.replica.Barrier.join(bus, "start", 2) for _ in range(2))
    ...     with here, there:
    ...         other = threading.Thread(target=there.wait)
    ...         other.start()
    ...         here.wait(timeout=5)
    ...         other.join()
    1
    >>> busq.Bus.unlink("doc-replica-barrier")
    """

    def __init__(self, parties: int) -> None:
        if integer("parties", parties) < 1:
            raise ValueError(f"parties is {parties}: expected 1 or more")
        self.parties = parties
        self.row: list[list[Any]] = []  # [member, ticket] of each that waits
        self.passings = 0  # how often all have gone on

    def _busq_check(self, parties: int) -> None:
        if self.parties != parties:
            raise ValueError(f"this barrier has {self.parties} parties: expected {parties}")

    @waits
    async def wait(self, calls: Any, timeout: float | None = None) -> int:
        """Wait until as many wait as there are parties; returns how often they have gone on, this time included.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout: it waits no more; Unreachable where another machine may have counted it, and
        that was not learned in time; ShutDown, ForkedHandle, Diverged; ValueError, TypeError.
        """
        deadline = Deadline(timeout)
        mine: list[Any] = [self.member, next(_tickets)]
        passing = 0
        is_settled = False  # it has passed, or given up, or has not arrived
        try:
            passing = await _in_time(calls.call("_arrive", *mine, deadline=deadline))
            await calls.wait_for(lambda: self.passings >= passing, deadline.left_s())
            is_settled = True
        except _NoRoomError:
            is_settled = True
            raise
        except errors.Empty:
            found = self._busq_withdraw(mine)
            is_settled = True
            if found is None and self._busq.is_wide:
                raise open_error("whether all have gone on with this one was not learned in time") from None
            (passings,) = found or [0]
            if not passings:
                raise
            passing = passing or passings  # all went on just then
        finally:
            if not is_settled:
                with contextlib.suppress(errors.ShutDown):
                    self._busq_withdraw(mine)
        return passing

    @command
    def _arrive(self, member: str, ticket: int) -> int:
        self.row.append([member, ticket])
        passing = self.passings + 1
        if len(self.row) >= self.parties:
            self.passings, self.row = passing, []
        return passing

    @command
    def _withdraw(self, member: str, ticket: int) -> int:
        """Return how often all have gone on, if they did so with this one; otherwise 0."""
        row = [one for one in self.row if one != [member, ticket]]
        passings = self.passings if len(row) == len(self.row) else 0
        self.row = row
        return passings

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Count the members that are there."""
        self.row = [one for one in self.row if one[0] in members]
