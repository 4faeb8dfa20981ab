# SPDX-License-Identifier: Apache-2.0
"""The other reading of a model: states over small sorts, and the executions that lead to them, without a solver.

A proof shows that no step breaks an invariant.  An execution shows the reverse of a mutant: from the beginning, in a
few steps, to a state in which a property that users rely on does not hold.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from busq.lab.proof.logic import Action, Expr, Sort, Symbol, System

__all__ = ["Execution", "Impossible", "Scene", "Violation"]

State = dict[Symbol, dict[tuple[int, ...], Any]]
Env = dict[Expr, int]


class Impossible(ValueError):
    """A step that its action does not allow in the state before it."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """So many elements of each sort, and what is fixed, as the places where each relation holds.

    Elements are numbers from 0; those of an ordered sort stand in that order.  A fixed function is given as its places,
    each with the value behind it, where that is not 0.
    """

    sizes: Mapping[Sort, int]
    fixed: Mapping[Symbol, frozenset[tuple[int, ...]]]


class Execution:
    """A state of a system, which steps change.  In the beginning no relation holds, and functions are 0.

    >>> from busq.lab.proof.models import multicast
    >>> execution = Execution(multicast.SYSTEM, multicast.scene([{0}]))
    >>> execution.step("begin", 0, 0)
    >>> execution.is_possible("commit", 0), execution.is_possible("propose", 0, 1)
    (False, True)
    """

    def __init__(self, system: System, scene: Scene) -> None:
        self._system = system
        self._scene = scene
        self._actions = {action.name: action for action in system.actions}
        self._state: State = {symbol: dict(self._beginning(symbol)) for symbol in system.symbols}
        for claim, formula in system.axioms.items():
            if not self._value(formula, {}):
                raise ValueError(f"the scene breaks an axiom of {system.name}: {claim}")

    def step(self, name: str, *arguments: int) -> None:
        """Take a step; raise Impossible, without a change, where its guard does not hold."""
        if not self.is_possible(name, *arguments):
            raise Impossible(f"{self.text(name, *arguments)} is not possible here")
        action = self._actions[name]
        env = self._bound(action, arguments)
        after = {update.symbol: self._state[update.symbol].copy() for update in action.updates}
        for update in action.updates:
            for at in self._places(update.symbol):
                inner = {**env, **dict(zip(update.places, at, strict=True))}
                after[update.symbol][at] = self._value(update.value, inner)
        self._state.update(after)

    def is_possible(self, name: str, *arguments: int) -> bool:
        """Whether the guard of an action holds; ValueError for an element that the scene has not."""
        action = self._actions[name]
        return bool(self._value(action.guard, self._bound(action, arguments)))

    def text(self, name: str, *arguments: int) -> str:
        """Return a step with the names of its parameters."""
        env = self._bound(self._actions[name], arguments)
        return f"{name}({', '.join(f'{parameter}={value}' for parameter, value in env.items())})"

    def broken(self, claims: Mapping[str, Expr]) -> list[str]:
        """Return the names of the formulas that do not hold in this state."""
        return [claim for claim, formula in claims.items() if not self._value(formula, {})]

    def _bound(self, action: Action, arguments: Sequence[int]) -> Env:
        env = dict(zip(action.parameters, arguments, strict=True))
        for parameter, value in env.items():
            if value not in self._elements(parameter.sort):
                raise ValueError(f"{action.name}: there is no {parameter} {value} in this scene")
        return env

    def _beginning(self, symbol: Symbol) -> Iterator[tuple[tuple[int, ...], Any]]:
        fixed = self._scene.fixed.get(symbol, frozenset()) if symbol.is_fixed else frozenset()
        values = {place[:-1]: place[-1] for place in fixed}
        for at in self._places(symbol):
            yield at, at in fixed if symbol.result is None else values.get(at, 0)

    def _places(self, symbol: Symbol) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(self._elements(sort) for sort in symbol.sorts))

    def _elements(self, sort: Sort | None) -> range:
        assert sort is not None
        return range(self._scene.sizes[sort])

    def _value(self, expr: Expr, env: Env) -> Any:
        op, args = expr.op, expr.args
        if op == "variable":
            return env[expr]
        if op == "apply":
            return self._state[args[0]][tuple(self._value(arg, env) for arg in args[1:])]
        if op in ("and", "or"):
            join: Callable[[Iterator[Any]], bool] = all if op == "and" else any
            return join(self._value(arg, env) for arg in args)
        if op in ("forall", "exists"):
            return self._quantified(expr, env)
        if op == "either":
            return self._value(args[1] if self._value(args[0], env) else args[2], env)
        if op in ("true", "false"):
            return op == "true"
        values = [self._value(arg, env) for arg in args]
        if op == "not":
            return not values[0]
        return bool(values[0] < values[1]) if op == "below" else bool(values[0] == values[1])

    def _quantified(self, expr: Expr, env: Env) -> bool:
        bound, body = expr.args
        choices = itertools.product(*(self._elements(variable.sort) for variable in bound))
        values = (self._value(body, {**env, **dict(zip(bound, choice, strict=True))}) for choice in choices)
        return all(values) if expr.op == "forall" else any(values)


class Violation:
    """An execution that breaks a property: a scene, and steps as `name argument ...`, with `;` between them."""

    def __init__(self, scene: Scene, claim: str, steps: str) -> None:
        self.scene = scene
        self.claim = claim
        self.steps: list[tuple[Any, ...]] = [
            (name, *map(int, arguments)) for name, *arguments in map(str.split, steps.split(";"))
        ]

    def run(self, system: System) -> list[str]:
        """Take all steps; return the properties that then do not hold.  Raise Impossible where one can't be taken."""
        execution = Execution(system, self.scene)
        for name, *arguments in self.steps:
            execution.step(name, *arguments)
        return execution.broken(system.properties)

    def transcript(self, system: System) -> str:
        """Return the steps, a numbered line each, and the property that does not hold after them."""
        execution = Execution(system, self.scene)
        lines = [f"{number:3} {execution.text(name, *rest)}" for number, (name, *rest) in enumerate(self.steps, 1)]
        return "\n".join([*lines, f"    breaks {self.claim}"]) + "\n"
