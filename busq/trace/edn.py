# SPDX-License-Identifier: Apache-2.0
"""EDN, the notation of Clojure, as far as logs use it: values become those that JSON has, and keywords become text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["BadEdn", "forms"]

_TOKEN = re.compile(
    r"""[\s,]+ | ;[^\n]* | (?P<skip>\#_) | (?P<open>\#?\{|[\[(]) | (?P<close>[\])}]) | (?P<text>"(?:\\.|[^"\\])*")"""
    r""" | (?P<tag>\#[^\s,;"(){}\[\]]+) | (?P<atom>[^\s,;"(){}\[\]]+)""",
    re.VERBOSE,
)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS = {"nil": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class BadEdn(Exception):
    """A text that is no EDN, and why; `line` is where, and `is_cut` whether it ends too early."""

    def __init__(self, line: int, reason: str, *, is_cut: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.is_cut = is_cut


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """Give the values in a text that stand in no other one, each with its line; BadEdn where the text is none.

    >>> list(forms('{:type :ok, :value [[:r 1 nil]]} ; a read'))
    [(1, {'type': 'ok', 'value': [['r', 1, None]]})]
    """
    within: list[tuple[str, int, list[Any], int]] = []  # what is open: its mark, its line, its items, those to skip
    items: list[Any] = []
    place, line, skipped = 0, 1, 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise BadEdn(line, f"{text[place : place + 20]!r} has no end", is_cut=True)
        place = token.end()
        if token["open"]:
            within.append((token["open"], line, items, skipped))
            items, skipped = [], 0
        elif token["skip"]:
            skipped += 1
        elif token["close"] or token["text"] or token["atom"]:
            first = line
            if token["close"]:
                if not within or _CLOSES[within[-1][0]] != token["close"]:
                    raise BadEdn(line, f"{token['close']!r} closes nothing that is open")
                inner = items
                mark, first, items, skipped = within.pop()
                value = _collection(mark, inner, line)
            else:
                value = _text(token["text"]) if token["text"] else _atom(token["atom"])
            if skipped:
                skipped -= 1
            elif within:
                items.append(value)
            else:
                yield first, value
        line += token[0].count("\n")
    if within:
        raise BadEdn(within[0][1], f"what {within[0][0]!r} opens has no end", is_cut=True)


def _collection(mark: str, items: list[Any], line: int) -> Any:
    if mark != "{":
        return items
    if len(items) % 2:
        raise BadEdn(line, "a map with a key and no value")
    return {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _text(token: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), token[1:-1])


def _atom(token: str) -> Any:
    if token in _WORDS:
        return _WORDS[token]
    try:
        return int(token.rstrip("N")) if token[-1] != ":" else token
    except ValueError:
        pass
    try:
        return float(token.rstrip("M"))
    except ValueError:
        return token.removeprefix(":")
