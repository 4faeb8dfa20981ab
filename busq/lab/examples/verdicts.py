# SPDX-License-Identifier: Apache-2.0
"""The verdicts of the observers about an example, next to what its order promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busq import orders
from busq.lab.observers import Verdict

__all__ = ["as_json", "broken", "claims"]


def claims(order: str, *, has_deaths: bool = False) -> frozenset[str]:
    """Return what an order promises; of what was recorded without one, what every order does.

    Where processes have died, "lost" is about those that live, and not every order promises that.

    >>> sorted(claims("none"))
    ['duplicated', 'lost', 'phantom']
    """
    kind, options = orders.parse(order or "none")
    return kind.claims - ({"lost"} - kind.under_crashes(options) if has_deaths else set())


def broken(order: str, verdicts: Mapping[str, Verdict], *, has_deaths: bool = False) -> list[str]:
    """Return the promises of an order that were broken."""
    promised = claims(order, has_deaths=has_deaths)
    return [name for name, verdict in verdicts.items() if name in promised and not verdict.ok]


def as_json(order: str, verdicts: Mapping[str, Verdict], *, has_deaths: bool = False) -> dict[str, Any]:
    """Return verdicts as a JSON object, by property."""
    promised = claims(order, has_deaths=has_deaths)
    return {
        name: {"ok": verdict.ok, "count": verdict.count, "claimed": name in promised, "text": verdict.text}
        for name, verdict in verdicts.items()
    }
