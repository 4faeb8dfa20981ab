# SPDX-License-Identifier: Apache-2.0
"""What the models share in which messages are delivered in the order of keys, a time and then a name."""

from __future__ import annotations

from collections.abc import Callable

from busq.lab.proof.logic import Expr, any_of, below, forall, same

__all__ = ["history_invariants", "key_below"]


def key_below(time: Expr, msg: Expr, other_time: Expr, other: Expr) -> Expr:
    """Return the formula that one key is below another: by time, and then by name."""
    return any_of(below(time, other_time), same(time, other_time) & below(msg, other))


def history_invariants(
    place: Expr,
    messages: tuple[Expr, Expr],
    delivered: Callable[[Expr, Expr], Expr],
    before: Callable[[Expr, Expr, Expr], Expr],
    final: Callable[[Expr], Expr],
) -> dict[str, Expr]:
    """Return what holds of the history `before` of each place: of what it holds, in which order, and that it is whole.

    Parameters: `place` and the two `messages`, variables; `delivered` and `before`, relations of a place and one or two
    messages; `final`, the time in a message's key.
    """
    one, two = messages
    return {
        "the history is of deliveries": forall(
            *(place, one, two), before(place, one, two) >> (delivered(place, one) & delivered(place, two))
        ),
        "the history is in the order of keys": forall(
            *(place, one, two), before(place, one, two) >> key_below(final(one), one, final(two), two)
        ),
        "the history is whole": forall(
            *(place, one, two),
            (delivered(place, one) & delivered(place, two))
            >> any_of(same(one, two), before(place, one, two), before(place, two, one)),
        ),
    }
