# SPDX-License-Identifier: Apache-2.0
"""The words of reports: what the checks count, what the figures are, events."""

from __future__ import annotations

import re
from collections.abc import Mapping

from busq.audit.page.scene import Happening, Scene
from busq.trace.schema import Kind

__all__ = ["COUNTED", "clean", "figure_title", "tell"]

# The unit of each check's count.
COUNTED = {
    "lost": "messages that never reached one of their destinations",
    "duplicated": "deliveries of a message beyond the first",
    "phantom": "deliveries of what nobody sent there",
    "fifo": "deliveries after a later message of the same sender",
    "causal": "deliveries after a message that follows from theirs",
    "consistent": "pairs of receivers that disagree about an order",
    "total": "messages on a cycle of all delivery orders",
    "synchronous": "messages on a crown: not all could have been instant",
    "side": "deliveries after a message sent when theirs was known to be sent",
    "clock": "events whose vector clock is not what follows from the log",
    "views": "views, and deliveries in groups, that do not fit together",
}

_FIGURES = {
    "latency": "Latency, from send to delivery",
    "queueing": "Queueing, from commit to delivery",
    "blocked": "Waiting, for room to send or for messages",
    "sent": "What was sent",
}
_UNITS = {"ns": "ns", "us": "µs", "ms": "ms", "s": "s"}
_VERBS = {
    Kind.DELIVER: "deliver",
    Kind.SEND: "send",
    Kind.LOCAL: "",
    Kind.REDELIVER: "get again",
    Kind.ABORT: "abort",
    Kind.STAGE: "stage",
    Kind.SEAL: "seal",
    Kind.BLOCK: "wait",
    Kind.JOIN: "join",
    Kind.LEAVE: "leave",
    Kind.GAP: "lost events",
    Kind.PASS: "pass",
    Kind.DIE: "die",
}
_NAME = re.compile(r"(?P<subject>\w+?)_(?P<unit>[a-z]+)(?:_by_(?P<by>\w+))?")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """Return text without what no page can hold: control characters and halves of pairs.

    >>> clean("a\\x00b") == "a\ufffdb"
    True
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def figure_title(name: str) -> str:
    """Return what a figure of an audit shows, and its unit.

    >>> figure_title("latency_us")
    'Latency, from send to delivery (µs)'
    >>> figure_title("latency_us_by_fan_out")
    'Latency, from send to delivery, by fan-out (µs)'
    """
    match = _NAME.fullmatch(name)
    if match is None or match["unit"] not in _UNITS:
        return _FIGURES.get(name, name.replace("_", " "))
    by = f", by {match['by'].replace('_', '-')}" if match["by"] else ""
    return f"{_FIGURES.get(match['subject'], match['subject'].replace('_', ' '))}{by} ({_UNITS[match['unit']]})"


def tell(scene: Scene, event: Happening, hosts: Mapping[int, str]) -> str:
    """Return what an event is, in words, with the names of processes that are in `hosts`: "send p0.1 to p1, p2"."""
    name = scene.messages.get(event.message, "") if event.message is not None else ""
    text = f"{_VERBS.get(Kind(event.kind), '') if event.kind in set(Kind) else ''} {name}".strip()
    to = event.facts.get("destinations") or ()
    if event.kind == Kind.SEND and to:
        text += f" to {', '.join(hosts[one] if one in hosts else _name(scene, one) for one in to)}"
    label = str(event.facts.get("label") or "")
    return f"{text}: {label}" if label and text and label != name else text or label


def _name(scene: Scene, process: int) -> str:
    return scene.processes[process] if 0 <= process < len(scene.processes) else f"process {process}"
