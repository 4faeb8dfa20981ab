# SPDX-License-Identifier: Apache-2.0
"""What an event is: a column of the table, which strikes a feature while it works.

It returns the error that its victim got, if it got one: `expected.py` has which.  Whatever it was, afterwards a unit is
given and taken, and nothing may be lost, doubled, out of order, leaked or stuck.
"""

from __future__ import annotations

import importlib.util
import random
from typing import Any, ClassVar

from crossings.play import Play


class Event:
    """One column."""

    name: ClassVar[str] = ""
    says: ClassVar[str] = ""
    leaves = 0  # descriptors that Python itself keeps afterwards
    options: ClassVar[dict[str, Any]] = {}  # of the session: sizes, and a codec

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def strike(self, play: Play) -> Exception | None:
        raise NotImplementedError


class Skipped(Exception):
    """Something optional is not installed."""


def needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Skipped(f"needs {name}")
