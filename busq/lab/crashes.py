# SPDX-License-Identifier: Apache-2.0
"""Processes of a simulation that die: which ones and when, given or drawn."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from busq._util import arguments

__all__ = ["Crash", "drawn", "read"]

_SECONDS_MAX = 1e9
_EFFECTS_MAX = 2**32 - 1
_ONE = re.compile(r"(\d+)@(\d+(?:\.\d+)?)(?:\+(\d+))?")


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A process that dies at `at_s` seconds, or behind so many `effects` that it has from then on.

    Effects are that a message is sent, that one is delivered, and each packet to each receiver.  A process that has no
    more of them lives on.

    >>> print(Crash(process=2, at_s=0.5), Crash(process=0, at_s=0.035, effects=3))
    2@500 0@35+3
    """

    process: int
    at_s: float = 0.0
    effects: int = 0

    def __post_init__(self) -> None:
        arguments.whole("process", self.process, 0, 65535)
        arguments.whole("effects", self.effects, 0, _EFFECTS_MAX)
        if isinstance(self.at_s, bool) or not isinstance(self.at_s, int | float) or not 0 <= self.at_s <= _SECONDS_MAX:
            raise ValueError(f"at_s is {self.at_s!r}: expected a number from 0 to {_SECONDS_MAX:g}")

    def __str__(self) -> str:
        """As `read` reads it: times in milliseconds."""
        at_ms = Decimal(str(float(abs(self.at_s)))).scaleb(3).normalize()
        return f"{self.process}@{at_ms:f}" + (f"+{self.effects}" if self.effects else "")


def read(text: str) -> int | tuple[Crash, ...]:
    """Read how many processes die, or which ones and when in milliseconds; ValueError where it is something else.

    >>> read("2"), [str(one) for one in read("2@500,0@35.5+3")]
    (2, ['2@500', '0@35.5+3'])
    """
    if text.isascii() and text.isdigit():
        return int(text)
    found = [_ONE.fullmatch(one.strip()) for one in text.split(",")]
    if None in found:
        raise ValueError(f"{text!r}: expected how many processes die, or which and when in ms, as in 2@500,0@35+3")
    return tuple(
        Crash(process=int(one[1]), at_s=float(f"{one[2]}e-3"), effects=int(one[3] or 0)) for one in found if one
    )


def drawn(count: int, processes: int, within_s: float, seed: int) -> tuple[Crash, ...]:
    """Draw so many processes, and of each a time, and how many effects it still has: as many as one message may cause.

    >>> drawn(2, 5, 1.0, 1) == drawn(2, 5, 1.0, 1)
    True
    """
    chance = random.Random(f"crashes {seed}")
    who = chance.sample(range(processes), count)
    return tuple(
        Crash(process=one, at_s=round(chance.uniform(0, within_s), 6), effects=chance.randrange(processes + 2))
        for one in who
    )


def listed(crashes: Iterable[Crash]) -> str:
    """Return what `read` reads.

    >>> listed(drawn(0, 5, 1.0, 1))
    ''
    """
    return ",".join(map(str, crashes))
