# SPDX-License-Identifier: Apache-2.0
"""Objects that several processes keep alike: each has a copy, and all apply the same commands in one order.

A class derived from `Replica` says what the object is, and which of its methods are commands.  Ready-made: `Dict`,
`Counter`, `Lock`, `Election` and `Barrier`.

>>> import busq
>>> class Book(busq.Replica):
...     def __init__(self):
...         self.prices = {}
...
...     @busq.command
...     def set(self, name, price):
...         old = self.prices.get(name)
...         self.prices[name] = price
...         return old
>>> with busq.Bus.create("doc-replica") as bus:
...     with Book.join(bus, "book") as here, Book.join(bus, "book") as there:
...         here.set("A", 17), there.set("A", 18)
...         here.sync()
...         here.prices, there.prices
(None, 17)
({'A': 18}, {'A': 18})
>>> busq.Bus.unlink("doc-replica")
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from busq import errors
from busq._port import core as _core
from busq._state.commands import Commands, Raised, call_of
from busq._state.plain_codec import PLAIN
from busq._state.replica_engine import Engine
from busq.bus import Bus
from busq.groups import encode_group
from busq.peer import Codec

if TYPE_CHECKING:
    from busq._state.replica_aio import Joining

__all__ = ["Barrier", "Batch", "Counter", "Dict", "Election", "Lock", "Replica", "command"]

_Self = TypeVar("_Self", bound="Replica")
_Command = TypeVar("_Command", bound=Callable[..., Any])

_ENGINE = "_busq_engine"  # the only attribute that is no part of the state
_SUSPENDED = 0x20 | 0x80 | 0x200  # flags of the code of generators, coroutines and asynchronous generators
_OWN_NAME_BYTES = 200
_VERIFY = 1000


def command(function: _Command) -> _Command:
    """Make a method of a `Replica` a command: a call of it is applied by all replicas, in one order.

    A command may change the object; it uses its arguments and what the object holds, and nothing else: no clock, no
    chance, no identity of an object, no environment, and no order of a set, which is another one in each process.  What
    it returns, or raises, here is what the call returns, or raises.  A command that calls another one has it as a part
    of itself.  Without a bus, on an object that has not joined, a command is a plain method.

    Parameters: `function`, the method; its arguments are what the codec of the replica takes (`Replica.join`).

    Errors: of a call, besides what the command raises: TypeError for an argument that the codec does not take;
    ShutDown, ForkedHandle, Diverged; ValueError for arguments larger than the bus's arena.

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
        raise _core.wrong_type("function", function, "a method")
    name = function.__name__
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & _SUSPENDED:
        raise TypeError(f"{name!r} is a coroutine or a generator: a command is applied in one step, without pause")

    @functools.wraps(function)
    def call(self: Replica, *args: Any, **kwargs: Any) -> Any:
        engine: Engine | None = self.__dict__.get(_ENGINE)
        if engine is None or engine.is_in_command:
            return function(self, *args, **kwargs)
        (result,) = engine.call(call_of(self._busq_commands.numbers[name], args, kwargs))
        if type(result) is Raised:
            raise result.error
        return result

    call._command = function  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


class Batch:
    """Commands that go to all replicas as one message.  Made by the method batch of a replica, and has its commands.

    Whatever is called is noted; it is sent at the end of the block.  After that `results` has what each returned, and
    exceptions in the places of those that raised.
    """

    def __init__(self, engine: Engine, timeout: float | None) -> None:
        self._engine = engine
        self._timeout = timeout
        self._calls: list[Any] = []  # number, the arguments of each of its calls that follow each other, number, ...
        self._last: int | None = None
        self._add: Callable[[Any], None] = self._calls.append
        self._results: list[Any] | None = None

    @property
    def results(self) -> list[Any]:
        """What the commands returned, in their order."""
        if self._results is None:
            raise ValueError("the results of a batch are there after its block")
        return self._results

    def __len__(self) -> int:
        return sum(map(len, self._calls[1::2]))

    def __enter__(self: _Batch) -> _Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._calls:
            self._results = []
            return
        self._finish(self._engine.call(self._calls, self._timeout))

    def _finish(self, results: list[Any]) -> None:
        self._results = [result.error if type(result) is Raised else result for result in results]
        raised = next((result for result in results if type(result) is Raised), None)
        if raised is not None:
            raise raised.error

    def _begin(self, number: int, arguments: Any) -> None:
        group = [arguments]
        self._calls += (number, group)
        self._last, self._add = number, group.append

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is no command; a batch takes commands only")


_Batch = TypeVar("_Batch", bound=Batch)


def _recorder(name: str, number: int, function: Callable[..., Any]) -> Callable[..., None]:
    def record(self: Batch, *args: Any, **kwargs: Any) -> None:
        if self._last == number and not kwargs:
            self._add(args)
        elif kwargs:
            self._begin(~number, (args, kwargs))
        else:
            self._begin(number, args)

    record.__name__, record.__doc__ = name, function.__doc__
    return record


class Replica:
    """An object that several processes keep alike.  Derive from it, and mark what changes the object as `command`.

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
        if taken and cls.__module__ != __name__:
            raise TypeError(f"{cls.__name__}.{taken[0]} hides a method of Replica: choose another name")
        slots = cls.__dict__.get("__slots__", ())
        if slots and cls.get_state is Replica.get_state:
            raise TypeError(
                f"{cls.__name__} has __slots__, which are no part of the state: leave them out, or say what the state "
                f"is in get_state and set_state"
            )
        found = {name: one for name in dir(cls) if hasattr(one := getattr(cls, name), "_command")}
        cls._busq_commands = commands = Commands(found)
        recorders = {
            name: _recorder(name, number, function)
            for number, (name, function) in enumerate(zip(commands.names, commands.functions, strict=True))
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

        Parameters: `bus`, of order bus1, or its name; `name`, of the group; `args` and `kwargs`, for `__init__`;
        `member`, the name of this replica's peer (None: one that nobody else has); `codec`, what writes and reads
        arguments and states, the same at all replicas (None: plain data, None, bool, int, float, str, bytes, bytearray,
        tuples, lists, dicts and sets, of which reading runs no code; `busq.codec.pickle()` takes any object, for who
        trusts all who may join the bus); `verify`, compare digests of the state, and of what the commands returned and
        raised, with the others after so many commands (True: 1000): the first command that has another effect or
        another result there raises Diverged at every replica; `timeout`, how many seconds to wait for the state.

        Errors: those of `Bus.join` and `Peer.enter`; Empty if the state did not come before the timeout; TypeError if
        the state is nothing that the codec takes, or if the group is kept by a class with other commands.

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
            raise _core.wrong_type("bus", bus, "a Bus, or the name of one")
        encode_group(name)
        every = _VERIFY if verify is True else _core.whole_number("verify", verify, 32)
        chosen = PLAIN if codec is None else _core.codec(codec)
        deadline = _core.Deadline(timeout)
        replica = cls(*args, **kwargs)
        if chosen is not None:
            chosen.encode(replica.get_state())  # what can't be given to a joiner is refused before there is one
        own = _own_name(name) if member is None else member
        opened = Bus.open(bus) if isinstance(bus, str) else None
        try:
            engine = Engine(replica, opened or bus, name, own, chosen, every)
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
        weakref.finalize(replica, engine.close).atexit = False
        return replica

    @classmethod
    def join_async(cls, bus: Bus | str, name: str, *args: Any, **options: Any) -> Joining:
        """Join in an event loop: `async with Book.join_async(bus, "book") as book`.

        Commands are awaited there, `await book.set("A", 17)`, as are `sync`, `wait_for` and what waits in the
        ready-made classes; everything else is as it is here.  A command whose `await` is cancelled may have been
        applied, or be applied later.

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
        from busq._state.replica_aio import Joining  # here, since most have no event loop

        return Joining(cls, bus, name, args, options)

    # ---- what a class may say otherwise ----

    def get_state(self) -> Any:
        """Return the state, as the codec takes it: all attributes, unless a class says otherwise.

        Errors: none.

        Cost: that of a dict of the attributes.

        >>> import busq
        >>> busq.replica.Counter(5).get_state()
        {'value': 5}
        """
        return {name: value for name, value in vars(self).items() if name != _ENGINE}

    def set_state(self, state: Any) -> None:
        """Take a state that `get_state` returned at another replica.

        Parameters: `state`, read by the codec; nobody else has it.

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
        """Learn who is there, at the same place of the order at every replica; a class may change its state here.

        It is called as commands are applied, and what holds for a command holds for it.

        Parameters: `members`, by name, an order that is the same everywhere; `joined` and `left`, who has come and who
        has gone, closed or dead, since the view before.

        Errors: what it raises ends this replica.

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

    def _busq_check(self, *args: Any, **kwargs: Any) -> None:
        """Compare what `__init__` was given with the state that has been taken, where that matters."""

    # ---- what everybody may call ----

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
        """Who is there, as of what was applied here."""
        return self._busq.members

    @property
    def position(self) -> int:
        """How many commands and views have been applied: where two replicas say the same, they have the same state."""
        return self._busq.position

    def sync(self, timeout: float | None = None) -> None:
        """Return when all has been applied here that was finished anywhere before the call.

        A read after it sees all that; so does a read after a command of this replica.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout; ShutDown, ForkedHandle, Diverged.

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

        Cost: the state, written and read by the codec; nothing is applied here while it is written.

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
        with engine.reading():
            written, position = engine.encode(self.get_state()), engine.position
        return engine.codec.decode(memoryview(written)), position

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Keep the state as it is during a block, for what takes more than one step to read.

        A single look at an attribute, or at one item of a dict, needs no block.

        Errors: of the block, RuntimeError for a command in it, which would wait for ever.

        Cost: two locks; what others send waits in the queue meanwhile.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-reading") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     with d.reading():
        ...         sum(d.data.values())
        1
        >>> busq.Bus.unlink("doc-replica-reading")
        """
        return self._busq.reading()

    def batch(self, timeout: float | None = None) -> Batch:
        """Note commands in a block, and send them at its end, as one message: `with book.batch() as batch`.

        They are applied one after the other, with nothing in between, and fastest so.  The end of the block raises what
        the first of them raised, if any did; the others are applied all the same, and `batch.results` has everything.
        A block that is left by an exception sends nothing.

        Parameters: `timeout`, how many seconds to wait for room: None waits for ever.

        Errors: those of a command; Full after the timeout: nothing was applied; AttributeError for what is no command.

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
        _core.timeout_ns(timeout)
        return self._busq_batch(self._busq, timeout)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Return what the predicate returns as soon as that is true.

        Parameters: `predicate`, a function without arguments that looks at the state, called between commands, here
        and in the thread that applies; `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout; what the predicate raises; ShutDown, ForkedHandle, Diverged.

        Cost: a call of the predicate after each change of the state that comes.

        >>> import busq
        >>> with busq.Bus.create("doc-replica-wait") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d["ready"] = "yes"
        ...     d.wait_for(lambda: d.get("ready"), timeout=5)
        'yes'
        >>> busq.Bus.unlink("doc-replica-wait")
        """
        return self._busq.wait_for(predicate, timeout)

    def close(self) -> None:
        """Leave the group; what it holds can still be read.  Closing twice is harmless.

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


def _own_name(group: str) -> str:
    """Return a name that no other replica has."""
    shown = group.encode()[:_OWN_NAME_BYTES].decode(errors="ignore")
    return f"{shown}#{os.getpid()}-{secrets.token_hex(3)}"


_RESERVED = {
    name for name in vars(Replica) if not name.startswith("_") and name not in ("get_state", "set_state", "on_view")
}


# ---- ways to wait: the ready-made classes say what they wait for once, for threads and for event loops ----


class Blocking:
    """In a thread: none of its coroutines ever sleeps, so that one step runs them to their end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def call(self, number: int, *args: Any, deadline: _core.Deadline = _core.NEVER) -> Any:
        """Have a command applied; Full where no room comes before the deadline."""
        (result,) = self._engine.call(call_of(number, args, {}), deadline.left_s())
        if type(result) is Raised:
            raise result.error
        return result

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None) -> Any:
        """Wait as `Replica.wait_for` does."""
        return self._engine.wait_for(predicate, timeout)


def _now(steps: Coroutine[Any, Any, Any]) -> Any:
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a blocking wait was suspended")


class _NoRoom(errors.Empty):
    """The command was not sent: there is nothing to withdraw."""


async def _in_time(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a command; without room for it, what it begins has not come before the timeout."""
    try:
        return await call
    except errors.Full:
        raise _NoRoom(
            "the command found no room before the timeout: a member takes no messages; is it stopped?"
        ) from None


_tickets = itertools.count(1)


class Dict(Replica):
    """A dict that several processes keep alike.

    Reading is local, and as quick as reading a dict; each change is a command, which all apply in one order.  What is
    read is the replica's own: put a new value under a key, and do not change the one that is there.  `d[key].append(1)`
    would change it here, and nowhere else; for such a step derive a class with a command of its own.

    Parameters: `initial`, what is there at first, as `dict` takes it; of a late joiner it is not used.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-dict") as bus:
    ...     with busq.replica.Dict.join(bus, "cache") as here, busq.replica.Dict.join(bus, "cache") as there:
    ...         here["a"] = 1
    ...         there.setdefault("a", 2), there.swap("a", 1, 3), there.pop("b", None)
    ...         here.sync()
    ...         here["a"], here.items(), "b" in here
    (1, True, None)
    (3, [('a', 3)], False)
    >>> busq.Bus.unlink("doc-replica-dict")
    """

    def __init__(self, initial: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        self.data: dict[Any, Any] = dict(initial)

    # ---- reading ----

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what stands under a key, or the default.

        Parameters: `key` and `default`, as in `dict.get`.

        Errors: TypeError for a key that can't be hashed.

        Cost: that of the same on a dict; it asks nobody.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-get") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d.get("a"), d.get("b"), d.get("b", 0)
        (1, None, 0)
        >>> busq.Bus.unlink("doc-dict-get")
        """
        return self.data.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def copy(self) -> dict[Any, Any]:
        """Return a dict of what is there, which changes no more: one moment of the order.

        The values are the replica's own: changed in place, they would differ from those of the others.

        Errors: none.

        Cost: a copy of the dict, not of its values; nothing is applied here meanwhile.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-copy") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     before = d.copy()
        ...     d["b"] = 2
        ...     before, d.copy()
        ({'a': 1}, {'a': 1, 'b': 2})
        >>> busq.Bus.unlink("doc-dict-copy")
        """
        with self._reading():
            return dict(self.data)

    def keys(self) -> list[Any]:
        """Return the keys of a moment, in the order in which they came.

        Errors: none.

        Cost: that of `copy`.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-keys") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d["b"] = 2
        ...     d.keys()
        ['a', 'b']
        >>> busq.Bus.unlink("doc-dict-keys")
        """
        return list(self.copy())

    def values(self) -> list[Any]:
        """Return the values of a moment, in the order of the keys.

        Errors: none.

        Cost: that of `copy`.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-values") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d["b"] = 2
        ...     d.values()
        [1, 2]
        >>> busq.Bus.unlink("doc-dict-values")
        """
        return list(self.copy().values())

    def items(self) -> list[tuple[Any, Any]]:
        """Return the pairs of a moment, in the order of the keys.

        Errors: none.

        Cost: that of `copy`.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-items") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d.items()
        [('a', 1)]
        >>> busq.Bus.unlink("doc-dict-items")
        """
        return list(self.copy().items())

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.__dict__.get(_ENGINE) is None else self.reading()

    # ---- commands ----

    @command
    def set(self, key: Any, value: Any) -> None:
        """Put a value under a key; `d[key] = value` does the same.

        Parameters: `key` and `value`, what the codec takes.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-set") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d.set("a", 1)
        ...     d["b"] = 2
        ...     d.copy()
        {'a': 1, 'b': 2}
        >>> busq.Bus.unlink("doc-dict-set")
        """
        self.data[key] = value

    def _set_all(self, pairs: list[Any]) -> list[None]:
        self.data.update(pairs)
        return [None] * len(pairs)

    set._at_once = _set_all  # type: ignore[attr-defined]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    @command
    def delete(self, key: Any) -> None:
        """Remove a key; `del d[key]` does the same.

        Parameters: `key`, what the codec takes.

        Errors: KeyError if it is not there, and those of any command.

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-delete") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d.delete("a")
        ...     len(d)
        0
        >>> busq.Bus.unlink("doc-dict-delete")
        """
        del self.data[key]

    def __delitem__(self, key: Any) -> None:
        self.delete(key)

    @command
    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value, or the default.

        Of several who pop one key at once, one gets its value.

        Parameters: `key` and `default`, as in `dict.pop`.

        Errors: KeyError if the key is not there and there is no default; those of any command.

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-pop") as bus, busq.replica.Dict.join(bus, "d", {"job": 1}) as d:
        ...     d.pop("job"), d.pop("job", None)
        (1, None)
        >>> busq.Bus.unlink("doc-dict-pop")
        """
        return self.data.pop(key, *default)

    @command
    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return what stands under a key; if nothing does, the default, which stands there then.

        Of several who call it at once, the first one wins, and all get what it has put there.

        Parameters: `key` and `default`, what the codec takes.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-setdefault") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d.setdefault("leader", "ann"), d.setdefault("leader", "bob")
        ('ann', 'ann')
        >>> busq.Bus.unlink("doc-dict-setdefault")
        """
        return self.data.setdefault(key, default)

    @command
    def swap(self, key: Any, old: Any, new: Any) -> bool:
        """Put a new value under a key if the old one stands there; has it been put there?

        Parameters: `key`; `old`, compared by `==`, None also where there is no such key; `new`.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-swap") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d.swap("a", None, 1), d.swap("a", 2, 3), d.swap("a", 1, 2), d["a"]
        (True, False, True, 2)
        >>> busq.Bus.unlink("doc-dict-swap")
        """
        if self.data.get(key) != old:
            return False
        self.data[key] = new
        return True

    @command
    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), **more: Any) -> None:
        """Put many values in one step: nobody sees some of them without the others.

        Parameters: `other` and `more`, as in `dict.update`; an iterable of pairs as a list or a tuple.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-update") as bus, busq.replica.Dict.join(bus, "d") as d:
        ...     d.update({"a": 1}, b=2)
        ...     d.copy()
        {'a': 1, 'b': 2}
        >>> busq.Bus.unlink("doc-dict-update")
        """
        self.data.update(other, **more)

    @command
    def clear(self) -> None:
        """Remove everything.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-dict-clear") as bus, busq.replica.Dict.join(bus, "d", {"a": 1}) as d:
        ...     d.clear()
        ...     len(d)
        0
        >>> busq.Bus.unlink("doc-dict-clear")
        """
        self.data.clear()


class Counter(Replica):
    """A number that several processes keep alike: `value`.

    Parameters: `value`, at first; of a late joiner it is not used.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-counter") as bus, busq.replica.Counter.join(bus, "visits") as visits:
    ...     visits.add(), visits.add(-3), visits.set(7), visits.value
    (1, -2, None, 7)
    >>> busq.Bus.unlink("doc-replica-counter")
    """

    def __init__(self, value: float = 0) -> None:
        self.value = value

    @command
    def add(self, number: float = 1) -> float:
        """Add a number; returns the sum at this place of the order.

        With steps of one sign, no two calls return the same: a source of numbers for all.

        Parameters: `number`, an int or a float; the order in which floats are added is the same for all.

        Errors: TypeError for what can't be added; those of any command.

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-counter-add") as bus, busq.replica.Counter.join(bus, "c") as counter:
        ...     counter.add(), counter.add(10), counter.add(-0.5)
        (1, 11, 10.5)
        >>> busq.Bus.unlink("doc-counter-add")
        """
        self.value += number
        return self.value

    @command
    def set(self, value: float) -> None:
        """Set the number.

        Parameters: `value`, an int or a float.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-counter-set") as bus, busq.replica.Counter.join(bus, "c") as counter:
        ...     counter.set(5)
        ...     counter.value
        5
        >>> busq.Bus.unlink("doc-counter-set")
        """
        self.value = value


class Lock(Replica):
    """A lock that one of several processes holds at a time; who dies holding it has released it.

    Whoever asks gets it in the order in which they asked.  Any number of threads of a process may ask.  A holder that
    is merely stopped goes on holding it.

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
        self.row: list[list[Any]] = []  # [member, ticket] of all who have asked; the first holds it
        self.number = 0  # of the holdings so far

    @property
    def holder(self) -> str | None:
        """Who holds it, as of what was applied here; None if nobody does."""
        row = self.row
        return row[0][0] if row else None

    def acquire(self, timeout: float | None = None) -> int:
        """Wait until this process holds it; returns the number of this holding, higher than any before.

        Who guards something outside of the bus hands that number along, so that what comes late from a former holder
        can be told.

        Parameters: `timeout`, how many seconds to wait: None waits for ever, 0 takes it if it is free.

        Errors: Empty after the timeout: it waits no more; ShutDown, ForkedHandle, Diverged; ValueError, TypeError.

        Cost: that of a command, and of the wait for those who have asked before.

        >>> import busq
        >>> with busq.Bus.create("doc-lock-acquire") as bus, busq.replica.Lock.join(bus, "l", member="ann") as lock:
        ...     number = lock.acquire(timeout=5)
        ...     lock.holder, number
        ...     lock.release()
        ('ann', 1)
        >>> busq.Bus.unlink("doc-lock-acquire")
        """
        return int(_now(self._acquire(Blocking(self._busq), timeout)))

    def release(self) -> None:
        """Let the next one have it.

        Errors: RuntimeError if this process does not hold it; those of any command.

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-lock-release") as bus, busq.replica.Lock.join(bus, "l") as lock:
        ...     lock.acquire()
        ...     lock.release()
        ...     lock.holder is None
        1
        True
        >>> busq.Bus.unlink("doc-lock-release")
        """
        _now(self._release(Blocking(self._busq)))

    @contextlib.contextmanager
    def held(self, timeout: float | None = None) -> Iterator[int]:
        """Hold it during a block: `with lock.held()`; the block gets the number of the holding.

        Parameters: `timeout`, as in `acquire`.

        Errors: at its beginning those of `acquire`, at its end those of `release`.

        Cost: that of `acquire` and `release`.

        >>> import busq
        >>> with busq.Bus.create("doc-lock-held") as bus, busq.replica.Lock.join(bus, "l", member="ann") as lock:
        ...     with lock.held() as number:
        ...         number, lock.holder
        (1, 'ann')
        >>> busq.Bus.unlink("doc-lock-held")
        """
        number = self.acquire(timeout)
        try:
            yield number
        finally:
            self.release()

    async def _acquire(self, port: Any, timeout: float | None) -> int:
        deadline = _core.Deadline(timeout)
        mine: list[Any] = [self.member, next(_tickets)]
        is_settled = False  # it holds the lock, or has not asked
        try:
            await _in_time(port.call(self._busq_commands.numbers["_ask"], *mine, deadline=deadline))
            if self.row[:1] != [mine]:
                await port.wait_for(lambda: self.row[:1] == [mine], deadline.left_s())
            is_settled = True
            return self.number
        except _NoRoom:
            is_settled = True
            raise
        finally:
            if not is_settled:
                with contextlib.suppress(errors.ShutDown):
                    self._busq_withdraw(mine)

    async def _release(self, port: Any) -> None:
        row = self.row[:1]
        if not row or row[0][0] != self.member:
            raise RuntimeError(f"{self.holder or 'nobody'} holds this lock, and not {self.member}")
        await port.call(self._busq_commands.numbers["_withdraw"], *row[0])

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

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Release what the dead held."""
        self._keep([one for one in self.row if one[0] in members])


class Election(Replica):
    """Who of several processes leads: the one that has stood longest; the next one when it dies.

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
        """Who leads, as of what was applied here; None if nobody stands."""
        candidates = self.candidates
        return candidates[0] if candidates else None

    @property
    def is_leader(self) -> bool:
        """Does this process lead, as of what was applied here?"""
        return self.leader == self.member

    def stand(self) -> None:
        """Become a candidate, behind those who are; who is one stays where it is.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-election-stand") as bus, busq.replica.Election.join(bus, "e") as election:
        ...     election.stand()
        ...     election.leader == election.member, election.is_leader
        (True, True)
        >>> busq.Bus.unlink("doc-election-stand")
        """
        self._stand(self.member)

    def resign(self) -> None:
        """Be no candidate any more; the next one leads.

        Errors: those of any command (`command`).

        Cost: that of a command, a message to all replicas.

        >>> import busq
        >>> with busq.Bus.create("doc-election-resign") as bus, busq.replica.Election.join(bus, "e") as election:
        ...     election.stand()
        ...     election.resign()
        ...     election.leader is None
        True
        >>> busq.Bus.unlink("doc-election-resign")
        """
        self._resign(self.member)

    def lead(self, timeout: float | None = None) -> int:
        """Stand, and wait until this process leads; returns the term, higher than that of any leader before.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout: it still stands, unless there was no room for that; ShutDown, ForkedHandle,
        Diverged; ValueError, TypeError.

        Cost: that of a command, and of the wait for those who have stood longer.

        >>> import busq
        >>> with busq.Bus.create("doc-election-lead") as bus, busq.replica.Election.join(bus, "e") as election:
        ...     election.lead(timeout=5), election.is_leader
        (1, True)
        >>> busq.Bus.unlink("doc-election-lead")
        """
        return int(_now(self._lead(Blocking(self._busq), timeout)))

    async def _lead(self, port: Any, timeout: float | None) -> int:
        deadline = _core.Deadline(timeout)
        await _in_time(port.call(self._busq_commands.numbers["_stand"], self.member, deadline=deadline))
        if not self.is_leader:
            await port.wait_for(lambda: self.is_leader, deadline.left_s())
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

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Let the next one lead where the leader has died."""
        self._keep([one for one in self.candidates if one in members])


class Barrier(Replica):
    """A place where so many wait for each other, again and again; who dies waiting does not count.

    Parameters: `parties`, how many, 1 or more, the same at all; otherwise joining raises ValueError.

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
        if _core.integer("parties", parties) < 1:
            raise ValueError(f"parties is {parties}: expected 1 or more")
        self.parties = parties
        self.row: list[list[Any]] = []  # [member, ticket] of all who wait
        self.passings = 0  # how often all have gone on

    def _busq_check(self, parties: int) -> None:
        if self.parties != parties:
            raise ValueError(f"this barrier has {self.parties} parties: expected {parties}")

    def wait(self, timeout: float | None = None) -> int:
        """Wait until as many wait as there are parties; returns how often they have gone on, this time included.

        Parameters: `timeout`, how many seconds to wait: None waits for ever.

        Errors: Empty after the timeout: it waits no more; ShutDown, ForkedHandle, Diverged; ValueError, TypeError.

        Cost: that of a command, and of the wait for the others.

        >>> import busq
        >>> with busq.Bus.create("doc-barrier-wait") as bus, busq.replica.Barrier.join(bus, "b", 1) as barrier:
        ...     barrier.wait(), barrier.wait()
        (1, 2)
        >>> busq.Bus.unlink("doc-barrier-wait")
        """
        return int(_now(self._wait(Blocking(self._busq), timeout)))

    async def _wait(self, port: Any, timeout: float | None) -> int:
        deadline = _core.Deadline(timeout)
        mine: list[Any] = [self.member, next(_tickets)]
        passing = 0
        is_settled = False  # it has passed, or given up, or has not arrived
        try:
            passing = await _in_time(port.call(self._busq_commands.numbers["_arrive"], *mine, deadline=deadline))
            await port.wait_for(lambda: self.passings >= passing, deadline.left_s())
            is_settled = True
        except _NoRoom:
            is_settled = True
            raise
        except errors.Empty:
            was_last = self._busq_withdraw(mine) == [False] and passing > 0  # all went on just then
            is_settled = True
            if not was_last:
                raise
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
    def _withdraw(self, member: str, ticket: int) -> bool:
        was_there = [member, ticket] in self.row
        self.row = [one for one in self.row if one != [member, ticket]]
        return was_there

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Count who is there."""
        self.row = [one for one in self.row if one[0] in members]
