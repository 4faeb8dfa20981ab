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
phantom       deliveries of a message that nobody sent to this receiver
fifo          deliveries that come after a message which the same sender sent later to the same receiver
causal        deliveries that come, at the same receiver, after a message whose send causally follows
              theirs (FIFO faults included)
consistent    unordered pairs of receivers that deliver some two common messages in opposite orders
total         messages on a cycle of the union of all receivers' delivery orders
============  ======================================================================================

A repeated delivery counts as duplicated (and as phantom if the first one did) and as nothing else.  A phantom is no
FIFO or causal fault, but receivers may disagree about its place.  Two remarks tell of a history that cannot be right:
``resent`` counts sends of a message beyond the one that counts (at the lowest process, there the first),
``impossible`` counts deliveries that their own send could only follow (they hand no causality on).

>>> history = History(["ann", "bob", "cleo"])
>>> history.send("ann", 1, ["bob", "cleo"])
>>> history.deliver("bob", 1)
>>> history.send("bob", 2, ["cleo"])
>>> history.deliver("cleo", 2)
>>> history.deliver("cleo", 1)
>>> verdicts = history.judge()
>>> [name for name, verdict in verdicts.items() if not verdict.ok]
['causal']
>>> verdicts["causal"].text
'cleo delivered m2 before m1, but m1 is in the past of m2: ann sent m1, bob delivered m1 and sent m2'
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from busq._core import check
from busq._native import ffi, lib

__all__ = ["PROPERTIES", "REMARKS", "Facts", "History", "Verdict", "Witness"]

PROPERTIES = ("lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total")
REMARKS = ("resent", "impossible")

Process = str | int

_NUMBERS = {name: number for number, name in enumerate(PROPERTIES + REMARKS)}
_FORMATS = {"B": "B?", "I": "IL", "Q": "QL"}
_NAMES_MAX = 1 << 64


@dataclass(frozen=True)
class Witness:
    """The evidence for a fault: who did what with which messages.

    With ``m`` for messages and ``p`` for processes:

    - lost: ``p[0]`` never delivered ``m[0]``, which ``p[1]`` sent to it.
    - duplicated: ``p[0]`` delivered ``m[0]`` again.
    - phantom: ``p[0]`` delivered ``m[0]``; ``p[1]``, if there is one, did send it, but not to ``p[0]``.
    - fifo: ``p[0]`` delivered ``m[1]`` before ``m[0]``, and ``p[1]`` sent ``m[0]`` before ``m[1]``.
    - causal: ``p[0]`` delivered ``m[1]``, sent by ``p[2]``, before ``m[0]``, sent by ``p[1]``.  The steps are the
      shortest chain from the one send to the other: ``p[1]`` sent ``m[0]`` and then (or as) the first step's message;
      the process of each step delivered its message, then sent the next one's, the last one ``m[1]``.  No steps:
      ``p[1]`` is ``p[2]``.
    - consistent: ``p[0]`` delivered ``m[0]`` before ``m[1]``, ``p[1]`` the other way around.
    - total: the process of each step delivered its message before that of the next step, the last one before that of
      the first.
    - resent: ``p[0]`` sent ``m[0]``, and the send that counts is another one, by ``p[1]``.
    - impossible: ``p[0]`` delivered ``m[0]``, and ``p[1]`` could send it only after that.
    """

    messages: tuple[int, ...]
    processes: tuple[str, ...]
    steps: tuple[tuple[int, str], ...] = ()
    steps_left_out: int = 0


@dataclass(frozen=True)
class Verdict:
    """What an observer found: ``ok`` says that ``count`` is 0; ``text`` says the witness, or what holds, in words."""

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
    """What every process sent and delivered, each in the order of its own log.

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
        if isinstance(processes, int) and processes < 0:
            raise ValueError(f"{processes} processes: use a number from 0 on, or names")
        names = [f"p{i}" for i in range(processes)] if isinstance(processes, int) else list(processes)
        self._names = tuple(names)
        self._indices = {name: index for index, name in enumerate(names)}
        if len(self._indices) != len(names):
            twice = next(name for index, name in enumerate(names) if self._indices[name] != index)
            raise ValueError(f"the process {twice!r} is named twice: every process has one log")
        handle = ffi.new("busq_history **")
        check(lib.busq_history_new(len(names), handle))
        self._history = ffi.gc(handle[0], lib.busq_history_free)
        self._lock = threading.Lock()
        self._n_events = 0

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
        column = _column(messages, "Q")
        self._append(process, b"\x01" * len(column), column, None, self._destinations(to))

    def deliver_many(self, process: Process, messages: Iterable[int]) -> None:
        """Append many deliveries; fastest from an array or buffer of unsigned 64-bit numbers.

        Raises ValueError, NoSpace; then nothing was appended.  Below 0.1 us per message.

        >>> History(3).deliver_many("p1", range(1, 1000))
        """
        self._append(process, None, _column(messages, "Q"), None, array("I"))

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
        numbers).  ``destination_counts`` says for every send how many of the ``destinations`` are its own; these stand
        one after the other, as indices of processes (unsigned 32-bit numbers).  Buffers of these types are not copied.

        Raises ValueError, NoSpace; then nothing was appended.  Below 0.1 us per event.

        >>> history = History(3)
        >>> history.extend("p0", [1, 1, 0], [10, 11, 10], [2, 1], [0, 1, 2])
        >>> history.facts()
        Facts(messages=2, copies=3, deliveries=1, events=3)
        """
        self._append(
            process,
            _column(kinds, "B"),
            _column(messages, "Q"),
            _column(destination_counts, "I"),
            _column(destinations, "I"),
        )

    def judge(self, properties: Iterable[str] = PROPERTIES) -> dict[str, Verdict]:
        """Judge the history as it stands: the verdict for each property asked for, in the order of PROPERTIES, REMARKS.

        What was sent and not delivered so far counts as lost.  Raises ValueError for an unknown property, NoSpace.
        O(events + deliveries x processes): 0.1 us per delivery for all properties (0.3 us if all is in disorder), 50 ns
        without the last three.  causal takes 4 bytes x processes squared while it runs.

        >>> History(2).judge(["fifo", "total"])["total"].ok
        True
        """
        asked = frozenset([properties] if isinstance(properties, str) else properties)
        unknown = sorted(asked.difference(_NUMBERS))
        if unknown:
            raise ValueError(f"unknown property {unknown[0]!r}: known are {', '.join(_NUMBERS)}")
        judgement = self._judge(sum(1 << _NUMBERS[name] for name in asked))
        return {
            name: self._verdict(name, judgement.verdicts[number]) for name, number in _NUMBERS.items() if name in asked
        }

    def facts(self) -> Facts:
        """How large the history is.  O(events).

        >>> History(2).facts()
        Facts(messages=0, copies=0, deliveries=0, events=0)
        """
        judgement = self._judge(0)
        return Facts(judgement.n_messages, judgement.n_copies, judgement.n_deliveries, self._n_events)

    def _judge(self, properties: int) -> Any:
        judgement = ffi.new("busq_judgement *")
        with self._lock:
            check(lib.busq_history_judge(self._history, properties, judgement))
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
            self._n_events += len(messages)

    def _index(self, process: Process) -> int:
        index = self._indices.get(process, -1) if isinstance(process, str) else process
        if not 0 <= index < len(self._names):
            raise ValueError(f"{process!r} is not one of the {len(self._names)} processes")
        return index

    def _destinations(self, to: Process | Iterable[Process]) -> array[int]:
        return array("I", [self._index(process) for process in ([to] if isinstance(to, (str, int)) else to)])

    def _verdict(self, name: str, verdict: Any) -> Verdict:
        if not verdict.count:
            return Verdict(True, 0, None, _HOLDS[name])
        raw = verdict.witness
        n_steps = min(raw.n_steps, len(raw.steps))
        witness = Witness(
            tuple(raw.messages[i] for i in range(raw.n_messages)),
            tuple(self._names[raw.processes[i]] for i in range(raw.n_processes)),
            tuple((raw.steps[i].message, self._names[raw.steps[i].process]) for i in range(n_steps)),
            raw.n_steps - n_steps,
        )
        return Verdict(False, verdict.count, witness, _TELL[name](witness))


def _message(message: int) -> int:
    if not 0 <= message < _NAMES_MAX:
        raise ValueError(f"the message {message} is not a number of 64 bits: use 0 to 2**64 - 1")
    return message


def _column(values: Iterable[int], typecode: str) -> Any:
    """The values as a buffer of this type: themselves where they are one, a copy otherwise."""
    if isinstance(values, (array, bytes, bytearray, memoryview)) or hasattr(values, "__array_interface__"):
        view = memoryview(values)  # type: ignore[arg-type]
        is_fit = view.ndim == 1 and view.c_contiguous and view.format in tuple(_FORMATS[typecode])
        if is_fit and view.itemsize == array(typecode).itemsize:
            return view
    try:
        return array(typecode, iter(values))  # an iterator, so that bytes are numbers here too and not raw memory
    except OverflowError as error:
        raise ValueError(f"a value does not fit into an unsigned number of {array(typecode).itemsize} bytes") from error


# ---- the witnesses in words ----

_HOLDS = {
    "lost": "every message reached all its destinations",
    "duplicated": "nobody delivered a message twice",
    "phantom": "everything delivered had been sent to its receiver",
    "fifo": "everybody delivered each sender's messages in the order of sending",
    "causal": "no message was delivered before one in its past",
    "consistent": "any two receivers delivered their common messages in the same order",
    "total": "all delivery orders fit into one",
    "resent": "every message was sent once",
    "impossible": "no delivery comes before its own send",
}


def _tell_lost(w: Witness) -> str:
    return f"{w.processes[0]} never delivered m{w.messages[0]}, which {w.processes[1]} sent to it"


def _tell_duplicated(w: Witness) -> str:
    return f"{w.processes[0]} delivered m{w.messages[0]} more than once"


def _tell_phantom(w: Witness) -> str:
    reason = "nobody sent" if len(w.processes) == 1 else f"{w.processes[1]} sent, but not to it"
    return f"{w.processes[0]} delivered m{w.messages[0]}, which {reason}"


def _tell_fifo(w: Witness) -> str:
    late, other = w.messages
    return f"{w.processes[0]} delivered m{other} before m{late}, but {w.processes[1]} sent m{late} before m{other}"


def _tell_causal(w: Witness) -> str:
    if not w.steps:
        return _tell_fifo(w)
    late, other = w.messages
    return f"{w.processes[0]} delivered m{other} before m{late}, but m{late} is in the past of m{other}: {_chain(w)}"


def _chain(w: Witness) -> str:
    late, other = w.messages
    first = w.steps[0][0]
    sentences = [f"{w.processes[1]} sent m{late}" + (f" and then m{first}" if first != late else "")]
    sent: Sequence[int | None] = [message for message, _ in w.steps[1:]] + [None if w.steps_left_out else other]
    for (message, process), next_message in zip(w.steps, sent, strict=True):
        ending = "" if next_message is None else f" and sent m{next_message}"
        sentences.append(f"{process} delivered m{message}{ending}")
    if w.steps_left_out:
        sentences.append(f"{w.steps_left_out} more steps that end with {w.processes[2]} sending m{other}")
    return ", ".join(sentences)


def _tell_consistent(w: Witness) -> str:
    (first, second), (p, q) = w.messages, w.processes
    return f"{p} delivered m{first} before m{second}, {q} delivered m{second} before m{first}"


def _tell_total(w: Witness) -> str:
    following = [message for message, _ in w.steps[1:] + w.steps[:1]]
    sentences = [
        f"{process} delivered m{message} before m{other}"
        for (message, process), other in zip(w.steps, following, strict=True)
    ]
    if w.steps_left_out:
        sentences[-1] = f"and so on over {w.steps_left_out + 1} more processes back to m{w.steps[0][0]}"
    return ", ".join(sentences)


def _tell_resent(w: Witness) -> str:
    if w.processes[0] == w.processes[1]:
        return f"{w.processes[0]} sent m{w.messages[0]} more than once"
    return f"{w.processes[1]} and {w.processes[0]} both sent m{w.messages[0]}"


def _tell_impossible(w: Witness) -> str:
    return f"{w.processes[0]} delivered m{w.messages[0]}, which {w.processes[1]} could send only after that"


_TELL = {
    "lost": _tell_lost,
    "duplicated": _tell_duplicated,
    "phantom": _tell_phantom,
    "fifo": _tell_fifo,
    "causal": _tell_causal,
    "consistent": _tell_consistent,
    "total": _tell_total,
    "resent": _tell_resent,
    "impossible": _tell_impossible,
}
