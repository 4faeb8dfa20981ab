# SPDX-License-Identifier: Apache-2.0
"""What replicas have in common: `Replica`, its commands, and batches of commands; see busq/replica.py."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from busq._port import arguments
from busq._port.deadline import Deadline, timeout_ns
from busq._port.group_members import checked_name
from busq._state.batch import Batch, recorder
from busq._state.commands import Commands, Raised, call_of, commands_in
from busq._state.digests import digest_of_kinds
from busq._state.plain_codec import PLAIN, name_of, written
from busq._state.replica_engine import Engine, close_if_there
from busq._state.verify import check_codec, check_digest
from busq.bus import Bus
from busq.peer import Codec

if TYPE_CHECKING:
    from busq._state.replica_aio import Joining

__all__ = ["Batch", "Replica", "command"]

_Self = TypeVar("_Self", bound="Replica")
_Command = TypeVar("_Command", bound=Callable[..., Any])

_ENGINE = "_busq_engine"  # the only attribute that is no part of the state
_SUSPENDED = 0x20 | 0x80 | 0x200  # flags of the code of generators, coroutines and asynchronous generators
_OWN_NAME_BYTES = 200
_VERIFY = 1000


def command(function: _Command) -> _Command:
    """Make a method of a `Replica` a command: a call of it is applied by all replicas, in one order.

    A command may change the object.  It uses its arguments and what the object holds, and nothing else: no clock, no
    chance, no identity of an object, no environment, and no order of a set, which is another one in each process.  The
    call returns, or raises, what the command returns or raises here.  A command that calls another one has it as a part
    of itself.  Without a bus, on an object that has not joined, a command is a plain method.

    Its name is that of the attribute.  The mark stands above other decorators, and a method that takes the place of a
    command in a derived class has it, too; `super()` then leads to the former command, as in any method.

    Parameters: `function`, the method; its arguments are what the codec of the replica takes (`Replica.join`).

    Errors: of a call, besides what the command raises: TypeError for an argument that the codec does not take;
    ShutDown, ForkedHandle, Diverged; Unreachable where its machine was put out; ValueError for arguments larger than
    the bus's arena.

    Cost: of a call, a message to all replicas and two changes of threads, some 20 microseconds; for many commands at
    once see `Replica.batch`.

    >>> import busq
    >>> class Sum(busq.Replica):
    ...     total = 0
    ...
    ...     @busq.command
    ...     def add(self, number):
    ...         self.total += number
    ...         return self.total
    >>> Sum().add(5)
    5
    """
    if not callable(function) or isinstance(function, staticmethod):
        raise arguments.wrong_type("function", function, "a method")
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & _SUSPENDED:
        raise TypeError(
            f"{function.__name__!r} is a coroutine or a generator: a command is applied in one step, without pause"
        )

    @functools.wraps(function)
    def call(self: Replica, *args: Any, **kwargs: Any) -> Any:
        engine: Engine | None = self.__dict__.get(_ENGINE)
        if engine is None or engine.is_in_command:
            return function(self, *args, **kwargs)
        (result,) = engine.call(call_of(self._busq_commands.number_of(function), args, kwargs))
        if type(result) is Raised:
            raise result.error
        return result

    call._command = function  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


class Replica:
    """An object that several processes keep alike.  Derive from it, and mark methods that change it as `command`.

    The attributes of the object are its state: those that `__init__` makes, and not those of the class.  They, and what
    they hold, are changed by commands, and by `on_view`, alone; reading them needs no call.  A replica is a context
    manager that closes itself.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-class") as bus:
    ...     with busq.replica.Counter.join(bus, "visits") as visits:
    ...         visits.add(), visits.add(10), visits.value
    (1, 11, 11)
    >>> busq.Bus.unlink("doc-replica-class")
    """

    _busq_commands: ClassVar[Commands] = Commands({})
    _busq_batch: ClassVar[type[Batch]] = Batch

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        taken = sorted(_RESERVED & vars(cls).keys())
        if taken:
            raise TypeError(f"{cls.__name__}.{taken[0]} hides a method of Replica: choose another name")
        slots = cls.__dict__.get("__slots__", ())
        if slots and cls.get_state is Replica.get_state:
            raise TypeError(
                f"{cls.__name__} has __slots__, which are no part of the state: leave them out, or say what the state "
                f"is in get_state and set_state"
            )
        cls._busq_commands = commands = Commands(commands_in(cls))
        recorders = {
            name: recorder(name, number, commands.functions[number])
            for name, number in commands.numbers.items()
            if name.isidentifier()
        }
        cls._busq_batch = type(f"{cls.__name__}Batch", (Batch,), recorders)

    @classmethod
    def join(
        cls: type[_Self],
        bus: Bus | str,
        name: str,
        *args: Any,
        member: str | None = None,
        codec: Codec | None = None,
        verify: bool | int = False,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> _Self:
        """Make a replica and let it enter the group of that name; returns it when it has the state of the others.

        The first one begins with what `__init__` makes.  A later one gets the state of the others at one place of their
        order, and applies all that follows.  When the last one has gone, so has the state.

        Parameters: `bus`, of order bus1, or its name; `name`, of the group, which may have members on several machines,
        and with "@" in front has to be such a one; `args` and `kwargs`, for `__init__`; `member`, the name of this
        replica's peer (None: a unique one); `codec`, which writes and reads arguments and states, the same at all
        replicas (None: plain data, None, bool, int, float, str, bytes, bytearray, tuples, lists, dicts and sets, of
        which reading runs no code; `busq.codec.pickle()` takes any object, where every process that may join the bus is
        trusted); `verify`, compare digests of the state, and of what the commands returned and raised, with the others
        after so many commands (True: 1000): the first command that has another effect or another result there raises
        Diverged at every replica; `timeout`, how many seconds to wait for a state, as the first member need not.

        Errors: those of `Bus.join` and `Peer.enter`; UnknownPeer for "@" before another group; Empty if the state did
        not come before the timeout; ValueError for a bus of another order; TypeError if the codec does not take the
        state or reads another, if one to be compared has no digest, or if the group has other commands.

        Cost: a peer of the bus, a thread, and a copy of the state, which one of the others packs between two commands.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-join") as bus:
        ...     with busq.replica.Dict.join(bus, "ages", {"Ann": 7}) as first:
        ...         first["Bob"] = 8
        ...         with busq.replica.Dict.join(bus, "ages") as late:
        ...             late.copy()
        {'Ann': 7, 'Bob': 8}
        >>> busq.Bus.unlink("doc-replica-join")
        """
        if not isinstance(bus, Bus | str):
            raise arguments.wrong_type("bus", bus, "a Bus, or the name of one")
        checked_name(name.removeprefix("@") if isinstance(name, str) else name)
        every = _VERIFY if verify is True else arguments.whole_number("verify", verify, 32)
        chosen: Any = PLAIN if codec is None else arguments.codec(codec)
        deadline = Deadline(timeout)
        replica = cls(*args, **kwargs)
        _check_state(chosen, replica.get_state(), is_verified=every > 0)
        own = _own_name(name) if member is None else member
        opened = Bus.open(bus) if isinstance(bus, str) else None
        try:
            there: Any = opened or bus
            if there.order != "bus1":
                raise ValueError(f"order {there.order} has no groups: replicas need order bus1")
            engine = Engine(replica, there, name, own, chosen, every)
        except BaseException:
            if opened is not None:
                opened.close()
            raise
        try:
            engine.own_bus = opened
            replica.__dict__[_ENGINE] = engine
            engine.start(deadline.left_s())
            replica._busq_check(*args, **kwargs)
        except BaseException:
            engine.close()
            raise
        weakref.finalize(replica, close_if_there, weakref.ref(engine)).atexit = False
        return replica

    @classmethod
    def join_async(cls: type[_Self], bus: Bus | str, name: str, *args: Any, **options: Any) -> Joining[_Self]:
        """Join in an event loop: `async with Book.join_async(bus, "book") as book`.

        Commands are awaited there, `await book.set("A", 17)`, as are `sync`, `wait_for` and what waits in the
        ready-made classes; everything else is as it is here.  Commands are sent in the order in which they are called.
        One whose `await` is cancelled was sent by then, and is applied before what is called next, or never is.

        Parameters: `bus`, `name`, `args` and `options`, as `join` takes them.

        Errors: those of `join`, at the beginning of the block; RuntimeError where no event loop runs.

        Cost: that of `join`; of a command, a turn of the event loop besides.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.replica.Counter.join_async(bus, "visits") as visits:
        ...         return await visits.add(5), visits.value
        >>> with busq.Bus.create("doc-replica-async") as bus:
        ...     asyncio.run(main(bus))
        (5, 5)
        >>> busq.Bus.unlink("doc-replica-async")
        """
        from busq._state.replica_aio import Joining  # here: it imports asyncio

        return Joining(lambda: cls.join(bus, name, *args, **options))

    # ---- methods that a class may override ----

    def get_state(self) -> Any:
        """Return the state, as the codec takes it: all attributes, unless a class overrides this.

        Errors: none.

        Cost: a dict of the attributes.

        >>> import busq
        >>> busq.replica.Counter(5).get_state()
        {'value': 5}
        """
        return {name: value for name, value in vars(self).items() if name != _ENGINE}

    def set_state(self, state: Any) -> None:
        """Take a state that `get_state` returned at another replica.

        Parameters: `state`, read by the codec for this replica alone.

        Errors: none.

        Cost: that of assigning the attributes.

        >>> import busq
        >>> counter = busq.replica.Counter()
        >>> counter.set_state({"value": 7})
        >>> counter.value
        7
        """
        engine = self.__dict__.get(_ENGINE)
        self.__dict__.clear()
        self.__dict__.update(state)
        if engine is not None:
            self.__dict__[_ENGINE] = engine

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Handle a change of the members, at the same place of the order at every replica.

        A class may change its state here.  It is called as commands are applied, and what holds for a command holds for
        it.

        Parameters: `members`, by name, in an order that is the same everywhere; `joined` and `left`, those that have
        come, and those that have gone, closed or dead, since the view before.

        Errors: an exception ends this replica.

        Cost: none.

        >>> import busq
        >>> class Seen(busq.Replica):
        ...     def __init__(self):
        ...         self.names = []
        ...
        ...     def on_view(self, members, joined, left):
        ...         self.names += joined
        >>> with busq.Bus.create("doc-replica-view") as bus:
        ...     with Seen.join(bus, "seen", member="ann") as ann, Seen.join(bus, "seen", member="bob") as bob:
        ...         bob.names
        ['ann', 'bob']
        >>> busq.Bus.unlink("doc-replica-view")
        """

    def _busq_withdraw(self, mine: list[Any]) -> Any:
        """Have an entry of a row taken out everywhere, by the `_withdraw` of a class that has rows."""
        return self._busq.call_or_queue(call_of(self._busq_commands.numbers["_withdraw"], tuple(mine), {}))

    def _busq_begin(self, key: int) -> None:
        """Begin in a group of several machines, whose members may have counted before, at most up to `key`."""

    def _busq_check(self, *args: Any, **kwargs: Any) -> None:
        """Compare the arguments of `__init__` with the state that has been taken, where that matters."""

    # ---- reading, and waiting ----

    @property
    def _busq(self) -> Engine:
        engine: Engine | None = self.__dict__.get(_ENGINE)
        if engine is None:
            raise ValueError(
                f"this {type(self).__name__} has not joined: make it by {type(self).__name__}.join(bus, name)"
            )
        return engine

    @property
    def member(self) -> str:
        """The name of this replica among the members."""
        return self._busq.member

    @property
    def members(self) -> tuple[str, ...]:
        """The members, as of what was applied here."""
        return self._busq.members

    @property
    def position(self) -> int:
        """How many commands and views have been applied: two replicas at the same position have the same state."""
        return self._busq.position

    def sync(self, timeout: float | None = None) -> None:
        """Return when everything that was finished anywhere before the call has been applied here.

        A read after it sees all that; so does a read after a command of this replica.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout; Unreachable where its machine was put out; ShutDown, ForkedHandle, Diverged.

        Cost: a message to this replica alone, and two changes of threads.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-sync") as bus, busq.replica.Dict.join(bus, "d") as here:
        ...     with busq.replica.Dict.join(bus, "d") as there:
        ...         there["a"] = 1
        ...         here.sync()
        ...         here["a"]
        1
        >>> busq.Bus.unlink("doc-replica-sync")
        """
        self._busq.sync(timeout)

    def snapshot(self) -> tuple[Any, int]:
        """Return a copy of the state, and its position: a cut between two commands.

        Errors: ForkedHandle; TypeError if the state has come to hold what the codec does not take.

        Cost: the state, written and read by the codec, and two changes of threads; nothing is applied here while it is
        written.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-snapshot") as bus, busq.replica.Counter.join(bus, "c") as counter:
        ...     counter.add(5)
        ...     counter.snapshot()  # a view and a command
        5
        ({'value': 5}, 2)
        >>> busq.Bus.unlink("doc-replica-snapshot")
        """
        engine = self._busq
        engine.check_process()
        written, position = engine.ask(lambda: (engine.encode(self.get_state()), engine.position))
        return engine.codec.decode(memoryview(written)), position

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Keep the state as it is during a block, for a read of more than one step.

        A single look at an attribute, or at one item of a dict, needs no block.

        Errors: of the block, RuntimeError for a command in it, which would wait for ever, also for one of a signal
        handler that strikes there; `close` ends the replica there, with the state as it is.  What strikes any other
        call of a replica may use it.

        Cost: two locks; what others send waits in the queue meanwhile.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-reading") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     with d.reading():
        ...         sum(d.data.values())
        1
        >>> busq.Bus.unlink("doc-replica-reading")
        """
        return self._busq.reading()

    def _busq_look(self, function: Callable[[], Any], is_single_step: bool) -> Any:
        """Return what a function returns between two commands."""
        engine: Engine | None = self.__dict__.get(_ENGINE)
        if engine is None:
            return function()
        return engine.look(function) if is_single_step else engine.ask(function)

    def batch(self, timeout: float | None = None) -> Batch:
        """Note commands in a block, and send them at its end, as one message: `with book.batch() as batch`.

        They are applied one after the other, with nothing in between, and fastest so.  The end of the block raises what
        the first of them raised, if any did; the others are applied all the same, and `batch.results` has everything.
        A block that is left by an exception sends nothing.

        Parameters: `timeout`, how many seconds to wait for room: None waits for ever.

        Errors: those of a command; Full after the timeout: nothing was applied; Empty where it went to other machines
        and is open; AttributeError for what is no command.

        Cost: a message for all of them, and about a microsecond for each, at each replica.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-batch") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     with d.batch() as batch:
        ...         batch.set("a", 1)
        ...         batch.pop("a")
        ...     batch.results, len(d)
        ([None, 1], 0)
        >>> busq.Bus.unlink("doc-replica-batch")
        """
        timeout_ns(timeout)
        return self._busq_batch(self._busq, timeout)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Return what the predicate returns as soon as that is true.

        Parameters: `predicate`, a function without arguments that looks at the state, called between commands, in the
        thread that applies; `timeout`, how many seconds to wait: None waits for ever, 0 looks once.

        Errors: Empty after the timeout; what the predicate raises; ShutDown, ForkedHandle, Diverged.

        Cost: a message to this replica alone, two changes of threads, and a call of the predicate now and after each
        change of the state that comes.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-wait") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d["ready"] = "yes"
        ...     d.wait_for(lambda: d.get("ready"), timeout=5)
        'yes'
        >>> busq.Bus.unlink("doc-replica-wait")
        """
        return self._busq.wait_for(predicate, timeout)

    def close(self) -> None:
        """Leave the group; what the replica holds can still be read.  Closing twice is harmless.

        Errors: none; threads that wait here get ShutDown.

        Cost: a change of the view for the others.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-close") as bus:
        ...     counter = busq.replica.Counter.join(bus, "c")
        ...     counter.close()
        ...     counter.value
        0
        >>> busq.Bus.unlink("doc-replica-close")
        """
        self._busq.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        engine: Engine | None = self.__dict__.get(_ENGINE)
        where = "not joined" if engine is None else f"{engine.member!r} of group {engine.group!r}"
        return f"<{type(self).__name__} replica, {where}>"

    def __reduce__(self) -> Any:
        raise TypeError("a replica can't be pickled; join the group in the other process")


def _check_state(codec: Any, state: Any, *, is_verified: bool) -> None:
    """Raise for a state that could not be given to a joiner, or not be compared."""
    packed = memoryview(written(codec, state))
    if codec is not PLAIN:
        try:
            read = codec.decode(packed)
        except Exception as error:
            raise TypeError(
                f"the codec {name_of(codec)!r} can't read the state that it wrote: {error!r:.200}"
            ) from error
        check_codec(codec, digest_of_kinds(state), read)
    if is_verified:
        check_digest(codec, state)


def _own_name(group: str) -> str:
    """Return a unique name of a replica."""
    shown = group.removeprefix("@").encode()[:_OWN_NAME_BYTES].decode(errors="ignore")
    return f"{shown}#{os.getpid()}-{secrets.token_hex(3)}"


_RESERVED = {
    name for name in vars(Replica) if not name.startswith("_") and name not in ("get_state", "set_state", "on_view")
}
