# SPDX-License-Identifier: Apache-2.0
"""Words of a diagram: names that are abbreviated where they are long, and sentences in lines that fit."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence

__all__ = ["abbreviate", "one_line", "wrap"]

Width = Callable[[str], float]  # of a text


def one_line(text: str) -> str:
    """Return a text without line breaks.

    >>> one_line("two\\nlines")
    'two lines'
    """
    return " ".join(text.split())


def abbreviate(names: Sequence[str], room: float, width: Width) -> dict[str, str]:
    """Return how names are written in one line of this length; different names stay different.

    All of them are abbreviated in the same way, if there is one that leaves what they differ in.

    >>> list(abbreviate(["a long name, 1", "a long name, 2", "short"], 9, len).values())
    ['a lon…, 1', 'a lon…, 2', 'short']
    """
    lines = {name: one_line(name) for name in names}
    long = [line for line in dict.fromkeys(lines.values()) if width(line) > room]
    short = {*lines.values()} - {*long}
    shared = sum(1 for _ in itertools.takewhile(lambda letters: len({*letters}) == 1, zip(*long, strict=False)))

    def leave_ends(line: str, share: float) -> str:
        end = _fit(line[::-1], room * share, width)[::-1]
        return _fit(line, room - width("…" + end), width) + "…" + end

    def leave_middle(line: str) -> str:
        begin = _fit(line, room / 4, width)
        rest = line[max(len(begin), shared - 1) :]
        return begin + "…" + _fit(rest, room - width(begin + "……"), width) + "…"

    def number(line: str, mark: str) -> str:
        return _fit(line, room - width(mark), width) + mark

    ways = [[leave_ends(line, share) for line in long] for share in (1 / 3, 1 / 6)]
    ways.append([leave_middle(line) for line in long])
    ways.append([number(line, f"… ({place})") for place, line in enumerate(long, 1)])
    chosen = next((way for way in ways if len({*way} | short) == len(long) + len(short)), ways[-1])
    briefs = dict(zip(long, chosen, strict=True))
    return {name: briefs.get(line, line) for name, line in lines.items()}


def _fit(text: str, room: float, width: Width) -> str:
    """As much of the begin of a text as fits."""
    return text[: bisect_right(range(1, len(text) + 1), room, key=lambda end: width(text[:end]))]


def wrap(text: str, room: float, indent: float, width: Width) -> list[str]:
    """Return a text in lines that fit, the second and further ones indented; a word that is too long is broken.

    >>> wrap("as many words as fit", 10, 2, len)
    ['as many', 'words as', 'fit']
    """
    lines, used = [""], 0.0
    for word in text.split():
        added = f" {word}" if lines[-1] else word
        if used + width(added) <= room - (indent if len(lines) > 1 else 0.0):
            lines[-1] += added
            used += width(added)
            continue
        if lines[-1]:
            lines.append("")
        while width(word) > room - indent:
            lines[-1] = _fit(word, room - indent, width) or word[0]
            word = word[len(lines[-1]) :]
            lines.append("")
        lines[-1], used = word, width(word)
    return lines
