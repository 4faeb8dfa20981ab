# SPDX-License-Identifier: Apache-2.0
"""What models of orders share about the ends of a message: each is one process; and scenes that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["one_of_each", "scene_between"]


def one_of_each(*ends: Symbol) -> dict[str, Expr]:
    """Return the axioms that a message has one process at each of these ends, its `sender` for example."""
    return {f"a message has one {end.name}": _is_one(end) for end in ends}


def _is_one(end: Symbol) -> Expr:
    msg, proc = end.sorts
    (m,), (p1, p2) = variables("m", msg), variables("p1 p2", proc)
    return forall(m, p1, p2, (end(m, p1) & end(m, p2)) >> same(p1, p2))


def scene_between(
    source: Symbol, target: Symbol, messages: Sequence[tuple[int, int]], sizes: Mapping[Sort, int] | None = None
) -> Scene:
    """Return a scene with the source and the target of each message; processes are numbers from 0.

    `sizes` are those of further sorts.
    """
    msg, proc = source.sorts
    processes = 1 + max(process for ends in messages for process in ends)
    return Scene(
        {msg: len(messages), proc: processes, **(sizes or {})},
        {
            source: frozenset((number, one) for number, (one, _) in enumerate(messages)),
            target: frozenset((number, one) for number, (_, one) in enumerate(messages)),
        },
    )
