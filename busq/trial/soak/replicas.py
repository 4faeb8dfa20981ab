# SPDX-License-Identifier: Apache-2.0
"""The replicas that the workers of a soak keep: a dict, a counter and a lock, which record every step they make.

They have peers and threads of their own.  The workers that are never killed keep every replica's state alive.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import busq
from busq.trial.soak.ledger import REPLICAS, WHOLE, Kind, Phase
from busq.trial.soak.reporter import Reporter

__all__ = ["Replicas"]

JOIN_TIMEOUT_S = 1.0
HOLD_TIMEOUT_S = 0.02
SURVIVOR_S = 30.0  # so long a survivor's join, and the reading in the end, may take before they may seem to hang


class _Kept:
    """The part that all replicas of a soak share: each records after every step what its state comes to."""

    note: ClassVar[Callable[[int, int, int], None]]
    which: ClassVar[int]
    steps = 0

    def _step(self) -> None:
        self.steps += 1
        state = [(name, what) for name, what in sorted(vars(self).items()) if not name.startswith("_busq")]
        text = repr([(name, sorted(what.items()) if isinstance(what, dict) else what) for name, what in state])
        digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        _Kept.note(self.which, self.steps, digest)

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Count a view as a step."""
        super().on_view(members, joined, left)  # type: ignore[misc]
        self._step()


class _Dict(_Kept, busq.replica.Dict):
    which = REPLICAS.index("dict")

    @busq.command
    def put(self, key: int, value: int) -> None:
        self.data[key] = value
        self._step()


class _Counter(_Kept, busq.replica.Counter):
    which = REPLICAS.index("counter")

    @busq.command
    def tick(self) -> float:
        self.value += 1
        self._step()
        return self.value


class _Lock(_Kept, busq.replica.Lock):
    which = REPLICAS.index("lock")

    @busq.command
    def _ask(self, member: str, ticket: int) -> None:
        super()._ask(member, ticket)
        self._step()

    @busq.command
    def _withdraw(self, member: str, ticket: int) -> None:
        super()._withdraw(member, ticket)
        self._step()


_CLASSES: tuple[Any, ...] = (_Dict, _Counter, _Lock)


class Replicas:
    """The replicas of one life of a worker."""

    def __init__(self, reporter: Reporter, bus: busq.Bus) -> None:
        self._reporter, self._bus = reporter, bus
        self._each: dict[int, Any] = {}

    def begin(self) -> None:
        """Join some replicas; a survivor joins all."""
        reporter = self._reporter
        _Kept.note = lambda which, position, digest: reporter.write(Kind.APPLIED, position, 0, digest, flags=which)
        for which in range(len(REPLICAS)):
            if reporter.is_survivor or reporter.dice.random() < 0.3:
                self._join(which)

    def _join(self, which: int) -> None:
        is_survivor, plan = self._reporter.is_survivor, self._reporter.plan
        timeout_s = None if is_survivor else JOIN_TIMEOUT_S
        began_ns = self._reporter.mark(Phase.COMMANDING, timeout_s or SURVIVOR_S)
        name = REPLICAS[which]
        # The replica that gives the state may be stopped; but a survivor must have it.
        trouble = () if is_survivor else (busq.Empty, busq.PeerExists, busq.NoSpace)
        with contextlib.suppress(*trouble):
            member = f"{plan.names[self._reporter.index]}.{name}"
            self._each[which] = _CLASSES[which].join(self._bus, name, member=member, timeout=timeout_s)
            ended_ns = time.monotonic_ns()
            self._reporter.note_starvation()
            self._reporter.write(Kind.JOINED_REPLICA, 0, ended_ns, began_ns, flags=which)
        self._reporter.mark(Phase.WORKING)

    def end(self) -> None:
        """Read what stands there in the end, and leave."""
        for which, replica in self._each.items():
            self._read(which, replica)
        for replica in self._each.values():
            replica.close()
        self._each.clear()

    def command(self) -> None:
        """Give a command to one of them."""
        if self._each:
            which = self._reporter.dice.choice(list(self._each))
            (self._put, self._add, self._hold)[which](self._each[which])
            self._reporter.note_starvation()

    def _put(self, replica: Any) -> None:
        value = self._reporter.next_name()
        self._reporter.write(Kind.PUTTING, value)
        began_ns = self._reporter.mark(Phase.COMMANDING)
        replica.put(self._reporter.index, value)
        self._reporter.write(Kind.PUT, value, self._reporter.mark(Phase.WORKING), began_ns)

    def _add(self, replica: Any) -> None:
        self._reporter.write(Kind.ADDING)
        began_ns = self._reporter.mark(Phase.COMMANDING)
        total = replica.tick()
        self._reporter.write(Kind.ADDED, total, self._reporter.mark(Phase.WORKING), began_ns)

    def _hold(self, replica: Any) -> None:
        began_ns = self._reporter.mark(Phase.COMMANDING, HOLD_TIMEOUT_S)
        with contextlib.suppress(busq.Empty):
            number = replica.acquire(timeout=HOLD_TIMEOUT_S)
            self._reporter.write(Kind.HELD, number, 0, began_ns)
            time.sleep(self._reporter.dice.random() * 0.001)
            self._reporter.write(Kind.UNHOLDING, number)
            replica.release()
        self._reporter.mark(Phase.WORKING)

    def _read(self, which: int, replica: Any) -> None:
        now_ns = self._reporter.mark(Phase.LEAVING, SURVIVOR_S)
        replica.sync()
        values: Iterable[tuple[int, int]] = ()
        if REPLICAS[which] == "dict":
            values = [*replica.items(), (WHOLE, len(replica))]
        elif REPLICAS[which] == "counter":
            values = [(0, replica.value)]
        for key, value in values:
            self._reporter.write(Kind.READ, value, now_ns, flags=which, number=key)
