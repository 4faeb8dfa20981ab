# SPDX-License-Identifier: Apache-2.0
"""The columns of event loops: giving and taking by `busq.aio`, also by tasks that are cancelled."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from crossings.event import Event, needs
from crossings.play import Play
from crossings.session import PATIENCE_S, Giver, Session, Taker

import busq


async def settled(value: Any) -> Any:
    """What a call returned, if that is no coroutine; or else what that returns."""
    return await value if inspect.isawaitable(value) else value


class LoopGiver(Giver):
    """A giver whose peer is one of `busq.aio`."""

    def __init__(self, session: Session, name: str, peer: Any) -> None:
        self.session, self.name, self.notes = session, name, session.notes
        self.bus, self.peer, self.facts = session.bus, peer, {}

    async def give_in_loop(self, way: Any, timeout: float | None) -> None:
        units = self.units(way)
        self.notes.tries(units, way)
        try:
            result = await way.acall(self, units, timeout)
        except BaseException as error:
            self._note(way, units, error, [])
            raise
        for unit in units:
            self.notes.gave(unit)
        way.check_given(self, units, result)

    async def settle_in_loop(self) -> None:
        while self.peer is not None:
            try:
                message = await self.peer.recv(timeout=0)
            except busq.Empty:
                return
            self.got(message)


class LoopTaker(Taker):
    """A taker whose peer is one of `busq.aio`."""

    is_in_loop = True

    def __init__(self, session: Session, peer: Any) -> None:
        self.session, self.name, self.notes, self.bus = session, "taker", session.notes, session.bus
        self._life, self.facts, self.parts, self.peer = f"loop-{next(session.lives)}", {}, [], peer

    async def take_in_loop(self, timeout: float | None) -> int:
        message = await self.peer.recv(timeout, ack=self.session.ack)
        units = self.sort(message)
        for way in self.session.ways:
            await settled(way.after(self, message))
        message.ack()
        return units


class InLoop(Event):
    """Two tasks give, one takes; half of the calls are cancelled while they wait."""

    backend = "asyncio"
    loop_options: ClassVar[dict[str, Any]] = {}

    def strike(self, play: Play) -> Exception | None:
        needs("anyio")
        self.check_installed()
        import anyio

        play.is_away()
        anyio.run(self._main, play, backend=self.backend, backend_options=self.loop_options)
        return None

    def check_installed(self) -> None:
        """Raise Skipped where the event loop is not there."""

    async def _main(self, play: Play) -> None:
        import anyio

        session = play.session
        way = play.way
        async with way.loop_giver(session) as giver, way.loop_taker(session) as taker:
            for inbox in session.inboxes_of("taker"):
                play.ledger.absent.discard(inbox)
            async with anyio.create_task_group() as group:
                group.start_soon(self._take, play, taker)
                await way.prepare_in_loop(giver)
                await self._give(play, giver)
                group.cancel_scope.cancel()
            play.is_away()

    async def _give(self, play: Play, giver: Any) -> None:
        import anyio

        way = play.way
        for number in range(60):
            with anyio.move_on_after(self.chance.random() * 0.001 if number % 3 else PATIENCE_S):
                await giver.give_in_loop(way, PATIENCE_S)
            await giver.settle_in_loop()
            if play.witness:
                play.witness.take_all()
        await giver.give_in_loop(way, PATIENCE_S)
        last = list(play.ledger.sure)[-1:]
        with anyio.fail_after(PATIENCE_S):
            while not all(play.ledger.has(inbox, last) for inbox in play.session.inboxes_of("taker")):
                await anyio.sleep(0.001)

    async def _take(self, play: Play, taker: Any) -> None:
        import anyio

        while True:
            with anyio.move_on_after(self.chance.random() * 0.002):
                await taker.take_in_loop(None)
            if play.witness:
                play.witness.take_all()


class Asyncio(InLoop):
    name = "asyncio"
    says = "a task gives and another one takes, by `busq.aio`; many of the calls are cancelled while they wait"


class Uvloop(InLoop):
    name = "uvloop"
    says = "the same in uvloop"
    leaves = 2  # a pipe of uvloop's
    loop_options: ClassVar[dict[str, Any]] = {"use_uvloop": True}

    def check_installed(self) -> None:
        needs("uvloop")


class Trio(InLoop):
    name = "trio"
    says = "the same in trio"
    backend = "trio"

    def check_installed(self) -> None:
        needs("trio")
