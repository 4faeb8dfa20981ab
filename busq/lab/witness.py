# SPDX-License-Identifier: Apache-2.0
"""Witnesses: the evidence for a fault that an observer found, as data and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Witness", "describe", "number"]

Message = Callable[[int], str]


@dataclass(frozen=True)
class Witness:
    """The evidence for a fault: which processes did what with which messages.

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
    - synchronous, mysterious: the send of each ``m`` comes before a delivery of the next one, that of the last before
      one of the first.  The steps show it: two and two, they are events of one process ("send" or "deliver", in
      ``kinds``), the first before the second; each second one has the message of the first one of the next two.
    - c1, c3: as causal.
    - c2: as causal, and the first step's message, if there are steps, is not ``m[0]``.
    """

    messages: tuple[int, ...]
    processes: tuple[str, ...]
    steps: tuple[tuple[int, str], ...] = ()
    steps_left_out: int = 0
    kinds: tuple[str, ...] = ()
    messages_left_out: int = 0


def number(message: int) -> str:
    """Return the usual name of a message."""
    return f"m{message}"


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
    "synchronous": "every message could have taken no time",
    "c1": "no message was delivered causally after one in its future",
    "c2": "no message was delivered causally after a later one of its sender",
    "c3": "no message was delivered before one in its past",
    "mysterious": "no two messages were each sent before the other was delivered",
}


def _lost(w: Witness, m: Message) -> str:
    return f"{w.processes[0]} never delivered {m(w.messages[0])}, which {w.processes[1]} sent to it"


def _duplicated(w: Witness, m: Message) -> str:
    return f"{w.processes[0]} delivered {m(w.messages[0])} more than once"


def _phantom(w: Witness, m: Message) -> str:
    reason = "nobody sent" if len(w.processes) == 1 else f"{w.processes[1]} sent, but not to it"
    return f"{w.processes[0]} delivered {m(w.messages[0])}, which {reason}"


def _fifo(w: Witness, m: Message) -> str:
    late, other = map(m, w.messages)
    return f"{w.processes[0]} delivered {other} before {late}, but {w.processes[1]} sent {late} before {other}"


def _causal(w: Witness, m: Message) -> str:
    if not w.steps:
        return _fifo(w, m)
    late, other = map(m, w.messages)
    return f"{w.processes[0]} delivered {other} before {late}, but {late} is in the past of {other}: {_chain(w, m)}"


def _chain(w: Witness, m: Message) -> str:
    late, other = w.messages
    first = w.steps[0][0]
    sentences = [f"{w.processes[1]} sent {m(late)}" + (f" and then {m(first)}" if first != late else "")]
    sent: Sequence[int | None] = [message for message, _ in w.steps[1:]] + [None if w.steps_left_out else other]
    for (message, process), next_message in zip(w.steps, sent, strict=True):
        ending = "" if next_message is None else f" and sent {m(next_message)}"
        sentences.append(f"{process} delivered {m(message)}{ending}")
    if w.steps_left_out:
        sentences.append(f"{w.steps_left_out} more steps that end with {w.processes[2]} sending {m(other)}")
    return ", ".join(sentences)


def _consistent(w: Witness, m: Message) -> str:
    (first, second), (p, q) = map(m, w.messages), w.processes
    return f"{p} delivered {first} before {second}, {q} delivered {second} before {first}"


def _total(w: Witness, m: Message) -> str:
    following = [message for message, _ in w.steps[1:] + w.steps[:1]]
    sentences = [
        f"{process} delivered {m(message)} before {m(other)}"
        for (message, process), other in zip(w.steps, following, strict=True)
    ]
    if w.steps_left_out:
        sentences[-1] = f"and so on over {w.steps_left_out + 1} more processes back to {m(w.steps[0][0])}"
    return ", ".join(sentences)


def _resent(w: Witness, m: Message) -> str:
    if w.processes[0] == w.processes[1]:
        return f"{w.processes[0]} sent {m(w.messages[0])} more than once"
    return f"{w.processes[1]} and {w.processes[0]} both sent {m(w.messages[0])}"


def _impossible(w: Witness, m: Message) -> str:
    return f"{w.processes[0]} delivered {m(w.messages[0])}, which {w.processes[1]} could send only after that"


def _c2(w: Witness, m: Message) -> str:
    if not w.steps:
        return _fifo(w, m)
    late, other, first = m(w.messages[0]), m(w.messages[1]), m(w.steps[0][0])
    return (
        f"{w.processes[0]} delivered {late} causally after a delivery of {first}, "
        f"which {w.processes[1]} sent later: {_chain(w, m)}, {w.processes[0]} delivered {other} before {late}"
    )


def _crown(w: Witness, m: Message) -> str:
    events = [(kind, *step) for kind, step in zip(w.kinds, w.steps, strict=True)]
    sentences = []
    for (kind, message, process), (other_kind, other, _) in zip(events[::2], events[1::2], strict=True):
        pronoun = "" if other_kind == kind else f" it {_PAST_TENSE[other_kind]}"
        sentences.append(f"{process} {_PAST_TENSE[kind]} {m(message)} before{pronoun} {m(other)}")
    if w.steps_left_out:
        sentences.append(f"and so on over {w.steps_left_out // 2} more steps back to {m(w.messages[0])}")
    names = [m(message) for message in w.messages] + [f"{w.messages_left_out} more"] * bool(w.messages_left_out)
    return f"{', '.join(names[:-1])} and {names[-1]} are on a crown: {', '.join(sentences)}"


_PAST_TENSE = {"send": "sent", "deliver": "delivered"}
_FAULTS = {
    "lost": _lost,
    "duplicated": _duplicated,
    "phantom": _phantom,
    "fifo": _fifo,
    "causal": _causal,
    "consistent": _consistent,
    "total": _total,
    "resent": _resent,
    "impossible": _impossible,
    "synchronous": _crown,
    "c1": _causal,
    "c2": _c2,
    "c3": _causal,
    "mysterious": _crown,
}


def describe(name: str, witness: Witness | None, message: Message = number) -> str:
    """Return what an observer found, in words, or what holds if there is no witness; `message` names messages.

    >>> describe("duplicated", Witness((7,), ("ann",))), describe("lost", None)
    ('ann delivered m7 more than once', 'every message reached all its destinations')
    """
    return _HOLDS[name] if witness is None else _FAULTS[name](witness, message)
