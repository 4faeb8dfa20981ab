# SPDX-License-Identifier: Apache-2.0
"""Observers: was a history of sends and deliveries in order?

A history is what every process sent and delivered, in the order of its own log.  Nothing else is believed: no
timestamps, no sequence numbers, no vector clocks.  Each property gets the exact number of faults and, where there is
one, the smallest witness that was found, both as data and in words.

============  ======================================================================================
property      what ``count`` counts
============  ======================================================================================
lost          (message, destination) pairs sent and never delivered
duplicated    deliveries of a message to a receiver beyond the first
phantom       deliveries of a message that no process sent to this receiver
fifo          deliveries that come after a message which the same sender sent later to the same receiver
causal        deliveries that come, at the same receiver, after a message whose send causally follows
              theirs (FIFO faults included)
consistent    unordered pairs of receivers that deliver some two common messages in opposite orders
total         messages on a cycle of the union of all receivers' delivery orders
synchronous   messages on a crown (a cycle of the relation "the send of m comes before a delivery of n")
============  ======================================================================================

A repeated delivery counts as duplicated (and as phantom if the first one did) and as nothing else.  A phantom is no
FIFO or causal fault, but receivers may disagree about its place.  Two remarks point out a history that cannot be right:
``resent`` counts sends of a message beyond the one that counts (at the lowest process, there the first),
``impossible`` counts deliveries that their own send could only follow (they hand no causality on).

A textbook asks for more than that (Garg, Elements of Distributed Computing, chapter 12, problems 12.2 and 12.3):

============  ======================================================================================
c1            deliveries that come causally after that of a message whose send causally follows theirs
c2            deliveries that come causally after that of a message which the same sender sent later
c3            the same as causal
mysterious    messages on a crown of two: each was sent before a delivery of the other
============  ======================================================================================

c1 is causal as well: news of a later delivery elsewhere comes by a message, and that one overtook the late one, too.
c2 differs from them where messages have several receivers.  `classify` puts all of it together.

>>> history = History(["ann", "bob", "cleo"])
>>> history.send("ann", 1, ["bob", "cleo"])
>>> history.deliver("bob", 1)
>>> history.send("bob", 2, ["cleo"])
>>> history.deliver("cleo", 2)
>>> history.deliver("cleo", 1)
>>> verdicts = history.judge()
>>> [name for name, verdict in verdicts.items() if not verdict.ok]
['causal', 'synchronous']
>>> verdicts["causal"].text
'cleo delivered m2 before m1, but m1 is in the past of m2: ann sent m1, bob delivered m1 and sent m2'
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from busq._native import ffi, lib
from busq._port.arguments import integer
from busq._port.through_cffi import check, held, owned
from busq._util import arguments
from busq._util.side_by_side import side_by_side
from busq.lab.witness import Witness, describe, number

__all__ = [
    "CLASSES",
    "CONDITIONS",
    "PROPERTIES",
    "REMARKS",
    "Classification",
    "Facts",
    "History",
    "Verdict",
    "Witness",
    "classify",
]

PROPERTIES = ("lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total", "synchronous")
REMARKS = ("resent", "impossible")
CONDITIONS = ("c1", "c2", "c3", "mysterious")

# Every class of executions, the weakest first: which classes it is part of, and what is asked of it beyond these.
CLASSES: dict[str, tuple[tuple[str, ...], str]] = {
    "asynchronous": ((), ""),
    "fifo": (("asynchronous",), "fifo"),
    "c2": (("fifo",), "c2"),
    "causal": (("c2",), "causal"),
    "consistent": (("asynchronous",), "consistent"),
    "total": (("consistent",), "total"),
    "causal total": (("causal", "total"), ""),
    "mysterious": (("causal", "consistent"), "mysterious"),
    "synchronous": (("mysterious", "causal total"), "synchronous"),
}

Process = str | int

_SAME = {"c1": "causal", "c3": "causal"}
_NUMBERS = {
    name: getattr(lib, f"BUSQ_PROPERTY_{_SAME.get(name, name).upper()}") for name in PROPERTIES + REMARKS + CONDITIONS
}
# Properties that concern only messages with several receivers.
_SHARED_ONLY = ("consistent", "total", "causal total")
_KINDS = ("deliver", "send")
_CROWNS = ("synchronous", "mysterious")
_OF_CROWNS = sum(1 << _NUMBERS[name] for name in _CROWNS)
_EVENTS_BESIDE = 1 << 20  # from so many on, crowns are judged beside the others, which costs a pass over the events
_FORMATS = {"B": "B?", "I": "IL", "Q": "QL"}
_NAMES_MAX = 1 << 64


@dataclass(frozen=True)
class Verdict:
    """The finding of an observer: ``ok``, whether ``count`` is 0; ``text``, the witness, or what holds, in words."""

    ok: bool
    count: int
    witness: Witness | None
    text: str


@dataclass(frozen=True)
class Facts:
    """The size of a history: distinct messages sent, their (message, destination) pairs, deliveries, all events."""

    messages: int
    copies: int
    deliveries: int
    events: int


class History:
    """All sends and deliveries of an execution, by process, each in the order of its own log.

    ``processes`` are their names, or their number (then they are called p0, p1, ...).  A process is named or given by
    its index; a message is any number of 64 bits.  The order in which different processes' events are added means
    nothing.

    Costs 4 bytes per event, about 40 per message and 4 per destination (nothing where a process sends to the same
    destinations as the time before).  Many threads may use a history; each call takes effect as a whole.

    >>> history = History(2)
    >>> history.send("p0", 7, "p1")
    >>> history.judge()["lost"].text
    'p1 never delivered m7, which p0 sent to it'
    """

    def __init__(self, processes: Iterable[str] | int) -> None:
        """Start an empty history of these processes, at most 65,536; ValueError if a name comes twice."""
        names = arguments.process_names(processes)
        self._names = tuple(names)
        self._indices = {name: index for index, name in enumerate(names)}
        if len(self._indices) != len(names):
            twice = next(name for index, name in enumerate(names) if self._indices[name] != index)
            raise ValueError(f"the process {twice!r} is named twice: every process has one log")
        owner = owned("busq_history")
        check(lib.busq_history_new(len(names), owner))
        self._history = held(owner)
        self._lock = threading.Lock()

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the processes, in the order of their indices."""
        return self._names

    def send(self, process: Process, message: int, to: Process | Iterable[Process]) -> None:
        """Append: the process sent the message to one or several processes, itself allowed.

        Raises ValueError for a process or message that cannot be, NoSpace.  O(destinations).

        >>> History(3).send("p0", 1, ["p1", "p2"])
        """
        self._append(process, b"\x01", array("Q", [_message(message)]), None, self._destinations(to))

    def deliver(self, process: Process, message: int) -> None:
        """Append: the process delivered the message.

        Raises ValueError for a process or message that cannot be, NoSpace.  O(1).

        >>> History(3).deliver("p1", 1)
        """
        self._append(process, None, array("Q", [_message(message)]), None, array("I"))

    def send_many(self, process: Process, messages: Iterable[int], to: Process | Iterable[Process]) -> None:
        """Append many sends, all to the same destinations; fastest from an array or buffer of unsigned 64-bit numbers.

        Raises ValueError, NoSpace; then nothing was appended.  About 0.1 us per message.

        >>> History(3).send_many("p0", range(1, 1000), ["p1", "p2"])
        """
        column = _column("messages", messages, "Q")
        self._append(process, b"\x01" * len(column), column, None, self._destinations(to))

    def deliver_many(self, process: Process, messages: Iterable[int]) -> None:
        """Append many deliveries; fastest from an array or buffer of unsigned 64-bit numbers.

        Raises ValueError, NoSpace; then nothing was appended.  Below 0.1 us per message.

        >>> History(3).deliver_many("p1", range(1, 1000))
        """
        self._append(process, None, _column("messages", messages, "Q"), None, array("I"))

    def extend(
        self,
        process: Process,
        kinds: Iterable[int],
        messages: Iterable[int],
        destination_counts: Iterable[int],
        destinations: Iterable[int],
    ) -> None:
        """Append a log, or a part of one, from columns.

        ``kinds`` holds 1 for a send and 0 for a delivery, ``messages`` the message of each (bytes and unsigned 64-bit
        numbers).  ``destination_counts`` has for every send how many of the ``destinations`` are its own; these stand
        one after the other, as indices of processes (unsigned 32-bit numbers).  Buffers of these types are not copied.

        Raises ValueError, NoSpace; then nothing was appended.  Below 0.1 us per event.

        >>> history = History(3)
        >>> history.extend("p0", [1, 1, 0], [10, 11, 10], [2, 1], [0, 1, 2])
        >>> history.facts()
        Facts(messages=2, copies=3, deliveries=1, events=3)
        """
        self._append(
            process,
            _column("kinds", kinds, "B"),
            _column("messages", messages, "Q"),
            _column("destination_counts", destination_counts, "I"),
            _column("destinations", destinations, "I"),
        )

    def judge(self, properties: Iterable[str] = PROPERTIES) -> dict[str, Verdict]:
        """Judge the history: the verdict for each property asked for, in the order of PROPERTIES, REMARKS, CONDITIONS.

        A message that is not delivered so far counts as lost.  Raises ValueError for an unknown property, NoSpace.
        O(events + deliveries x processes): 0.04 us per delivery of broadcasts among 10 processes, 0.2 us where every
        message has one receiver (0.7 us if all is in disorder), 50 ns without the last four.  causal takes 4 bytes x
        processes squared while it runs, synchronous up to 34 per event and 46 per message.

        >>> History(2).judge(["fifo", "total"])["total"].ok
        True
        """
        asked = frozenset(arguments.names("properties", properties))
        unknown = sorted(asked.difference(_NUMBERS))
        if unknown:
            raise ValueError(f"unknown property {unknown[0]!r}: known are {', '.join(_NUMBERS)}")
        judgement = self._judge(asked)
        return {
            name: self._verdict(name, judgement.verdicts[number]) for name, number in _NUMBERS.items() if name in asked
        }

    def facts(self) -> Facts:
        """How large the history is.  O(events).

        >>> History(2).facts()
        Facts(messages=0, copies=0, deliveries=0, events=0)
        """
        judgement = self._judge(())
        with self._lock:
            n_events = sum(map(self._count, range(len(self._names))))
        return Facts(judgement.n_messages, judgement.n_copies, judgement.n_deliveries, n_events)

    def events(self, process: Process) -> list[tuple[str, int]]:
        """The log of a process: a kind, "send" or "deliver", and a message for every event.

        Raises ValueError for a process that is not there.  O(events of the process).

        >>> history = History(2)
        >>> history.send("p0", 7, "p1")
        >>> history.events("p0"), history.events("p1")
        ([('send', 7)], [])
        """
        index, count = self._index(process), ffi.new("size_t *")
        with self._lock:
            count[0] = self._count(index)
            kinds, messages = bytearray(count[0]), array("Q", bytes(8 * count[0]))
            columns = ffi.from_buffer("uint8_t[]", kinds), ffi.from_buffer("uint64_t[]", messages)
            check(lib.busq_history_read(self._history, index, count[0], *columns, count))
        return [(_KINDS[kind], message) for kind, message in zip(kinds, messages, strict=True)]

    def destinations(self, message: int) -> tuple[str, ...]:
        """Return the destinations of a message, in the order of the processes; none where it was not sent.

        Of a message that was sent more than once these are the destinations of the send that counts.  Raises ValueError
        for what is no message.  O(destinations).

        >>> history = History(["ann", "bob", "cleo"])
        >>> history.send("ann", 7, ["cleo", "bob"])
        >>> history.destinations(7)
        ('bob', 'cleo')
        """
        return tuple(self._names[process] for process in self._destinations_of(_message(message)))

    def _destinations_of(self, message: int) -> tuple[int, ...]:
        to, count = ffi.new("uint32_t **"), ffi.new("uint32_t *")
        with self._lock:
            check(lib.busq_history_read_destinations(self._history, message, to, count))
            return tuple(to[0][i] for i in range(count[0]))

    def _count(self, process: int) -> int:
        count = ffi.new("size_t *")
        check(lib.busq_history_read(self._history, process, 0, ffi.NULL, ffi.NULL, count))
        return int(count[0])

    def _judge(self, properties: Iterable[str]) -> Any:
        bits = sum(1 << place for place in {_NUMBERS[name] for name in properties})
        parts = [part for part in (bits & ~_OF_CROWNS, bits & _OF_CROWNS) if part]  # each takes about as long
        with self._lock:
            n_events = sum(map(self._count, range(len(self._names))))
            asked = parts if parts and n_events >= _EVENTS_BESIDE else [bits]
            first, *others = side_by_side(self._judge_some, asked)
        for part, other in zip(asked[1:], others, strict=True):
            for place in range(len(other.verdicts)):
                if part & 1 << place:
                    first.verdicts[place] = other.verdicts[place]
        return first

    def _judge_some(self, bits: int) -> Any:
        judgement = ffi.new("busq_judgement *")
        check(lib.busq_history_judge(self._history, bits, judgement))
        return judgement

    def _append(self, process: Process, kinds: Any, messages: Any, counts: Any, destinations: Any) -> None:
        n_sends = bytes(kinds).count(1) if kinds is not None else 0
        if kinds is not None and len(kinds) != len(messages):
            raise ValueError(f"{len(kinds)} kinds for {len(messages)} messages: every event has one of each")
        if counts is not None and len(counts) != n_sends:
            raise ValueError(f"{len(counts)} destination counts for {n_sends} sends: every send has one")
        with self._lock:
            check(
                lib.busq_history_append(
                    self._history,
                    self._index(process),
                    len(messages),
                    ffi.NULL if kinds is None else ffi.from_buffer("uint8_t[]", kinds),
                    ffi.from_buffer("uint64_t[]", messages),
                    ffi.NULL if counts is None else ffi.from_buffer("uint32_t[]", counts),
                    ffi.from_buffer("uint32_t[]", destinations),
                    len(destinations),
                )
            )

    def _index(self, process: Process, argument: str = "process") -> int:
        known = arguments.process(argument, process)
        index = self._indices.get(known, -1) if isinstance(known, str) else known
        if not 0 <= index < len(self._names):
            raise ValueError(f"{process!r} is not one of the {len(self._names)} processes")
        return index

    def _destinations(self, to: Process | Iterable[Process]) -> array[int]:
        return array("I", [self._index(process, "a process (to)") for process in arguments.processes("to", to)])

    def _verdict(
        self, name: str, verdict: Any, names: Sequence[str] = (), message: Callable[[int], str] | None = None
    ) -> Verdict:
        """The verdict, with other names for processes and messages where they are given."""
        if not verdict.count:
            return Verdict(True, 0, None, describe(name, None))
        raw, names = verdict.witness, names or self._names
        n_steps = min(raw.n_steps, len(raw.steps))
        n_messages = min(raw.n_messages, len(raw.messages))
        witness = Witness(
            tuple(raw.messages[i] for i in range(n_messages)),
            tuple(names[raw.processes[i]] for i in range(raw.n_processes)),
            tuple((raw.steps[i].message, names[raw.steps[i].process]) for i in range(n_steps)),
            raw.n_steps - n_steps,
            tuple(_KINDS[raw.steps[i].kind] for i in range(n_steps)) if name in _CROWNS else (),
            raw.n_messages - n_messages,
        )
        return Verdict(False, verdict.count, witness, describe(name, witness, message or number))


def core_of(history: History) -> Any:
    """Return a history for calls of the core, which may use it as long as `history` lives."""
    return history._history


def judge_raw(
    history: History, names: Sequence[str], processes: Sequence[str] = (), message: Callable[[int], str] | None = None
) -> tuple[Any, dict[str, Verdict]]:
    """Return what the core found, and a verdict by property, with other names for processes and messages if given."""
    judgement = history._judge(names)
    found = ((name, judgement.verdicts[_NUMBERS[name]]) for name in names)
    return judgement, {name: history._verdict(name, verdict, processes, message) for name, verdict in found}


@dataclass(frozen=True)
class Classification:
    """Which classes an execution belongs to.

    ``satisfied`` holds the names of these, ``strongest`` those of which no other one is a part: CLASSES lists the
    parts of each.  Where no message has two receivers, consistent and total ask nothing, and are not named as the
    strongest.  ``missed`` has a verdict with a witness for each other class: against it, or against one that it is part
    of.  ``verdicts`` holds everything that was judged.
    """

    strongest: tuple[str, ...]
    satisfied: tuple[str, ...]
    missed: dict[str, Verdict]
    verdicts: dict[str, Verdict]

    def __str__(self) -> str:
        """Several lines: the strongest classes, then every class, the strongest first."""
        lines = ["strongest: " + ", ".join(self.strongest)]
        for name in reversed(CLASSES):
            missed = self.missed.get(name)
            lines.append(f"{name:<12}  " + ("yes" if missed is None else f"no   {missed.text}"))
        for name in REMARKS:
            if not self.verdicts[name].ok:
                lines.append(f"{name:<12}  {self.verdicts[name].count:<4} {self.verdicts[name].text}")
        return "\n".join(lines)


def classify(history: History) -> Classification:
    """Name the strongest classes that a history belongs to, and a witness against each class that it misses.

    Only order is classified: what was lost or delivered twice is in the verdicts.  Raises NoSpace.  Costs what
    History.judge does; where there are crowns, mysterious adds 0.05 to 0.5 us per delivery among 10 processes, up to
    2 us among 100, and takes 85 bytes per message and 36 per event.

    >>> history = History(["ann", "bob"])
    >>> history.send("ann", 1, "bob")
    >>> history.send("bob", 2, "ann")
    >>> history.deliver("ann", 2)
    >>> history.deliver("bob", 1)
    >>> classification = classify(history)
    >>> classification.strongest
    ('causal',)
    >>> classification.missed["synchronous"].text
    'm1 and m2 are on a crown: ann sent m1 before it delivered m2, bob sent m2 before it delivered m1'
    """
    arguments.typed("history", history, History, "a History")
    names = PROPERTIES + REMARKS + CONDITIONS
    judgement, verdicts = judge_raw(history, names)
    missed: dict[str, Verdict] = {}
    for name, (weaker, asked) in CLASSES.items():
        own = [verdicts[asked]] if asked and not verdicts[asked].ok else []
        against = own + [missed[other] for other in weaker if other in missed]
        if against:
            missed[name] = against[0]
    satisfied = tuple(name for name in CLASSES if name not in missed)
    candidates = [name for name in satisfied if judgement.n_shared or name not in _SHARED_ONLY]
    below = {other for name in candidates for other in _weaker(name)}
    return Classification(tuple(name for name in candidates if name not in below), satisfied, missed, verdicts)


def _weaker(name: str) -> set[str]:
    """All classes that this one is part of."""
    return {weaker for other in CLASSES[name][0] for weaker in (other, *_weaker(other))}


def _message(message: int) -> int:
    message = integer("message", message)
    if not 0 <= message < _NAMES_MAX:
        raise ValueError(f"the message {message} is not a number of 64 bits: use 0 to 2**64 - 1")
    return message


def _column(argument: str, values: Iterable[int], typecode: str) -> Any:
    """The values as a buffer of this type: themselves where they are one, a copy otherwise."""
    if isinstance(values, (array, bytes, bytearray, memoryview)) or hasattr(values, "__array_interface__"):
        view = memoryview(values)  # type: ignore[arg-type]
        is_fit = view.ndim == 1 and view.c_contiguous and view.format in tuple(_FORMATS[typecode])
        if is_fit and view.itemsize == array(typecode).itemsize:
            return view
    arguments.typed(argument, values, Iterable, "an iterable of whole numbers")
    kept = values if isinstance(values, Sequence) else list(values)
    try:
        return array(typecode, iter(kept))  # an iterator, so that bytes are numbers here too and not raw memory
    except OverflowError as error:
        size = array(typecode).itemsize
        raise ValueError(f"{argument}: a value does not fit into an unsigned number of {size} bytes") from error
    except TypeError:
        for place, value in enumerate(kept):
            integer(f"{argument}[{place}]", value)
        raise
