# SPDX-License-Identifier: Apache-2.0
"""What the models of orders share about coming to rest: that nothing is lost is shown of states where nothing moves.

In such a state no *first* message is left: below each one that is left there is another one.  There are finitely many,
so none is left.  That a state of rest is reached is no part of it.
"""

from __future__ import annotations

from busq.lab.proof.logic import Action, Expr, all_of, forall

__all__ = ["at_rest"]


def at_rest(*actions: Action) -> Expr:
    """Return the formula that none of these actions can happen."""
    return all_of(*(forall(*action.parameters, ~action.guard) for action in actions))
