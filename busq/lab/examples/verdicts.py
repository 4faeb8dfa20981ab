# SPDX-License-Identifier: Apache-2.0
"""The verdicts of the observers about an example, next to what its order promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busq import orders
from busq.lab.observers import Verdict

__all__ = ["as_json", "broken", "claims"]


def claims(order: str) -> frozenset[str]:
    """Return what an order promises; of what was recorded without one, what every order does.

    >>> sorted(claims("none"))
    ['duplicated', 'lost', 'phantom']
    """
    return orders.parse(order or "none")[0].claims


def broken(order: str, verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the promises of an order that were broken."""
    return [name for name, verdict in verdicts.items() if name in claims(order) and not verdict.ok]


def as_json(order: str, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Return verdicts as a JSON object, by property."""
    promised = claims(order)
    return {
        name: {"ok": verdict.ok, "count": verdict.count, "claimed": name in promised, "text": verdict.text}
        for name, verdict in verdicts.items()
    }
