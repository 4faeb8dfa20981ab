# SPDX-License-Identifier: Apache-2.0
"""The third reading of a model: actions as Python functions, for millions of steps over whatever elements there are.

Where `states.py` takes a few steps and explains them, this takes as many as a search of compiled code makes.  Elements
are any numbers; those that there are, as far as steps can depend on them, are found in the state itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from busq.lab.proof.logic import Action, Expr, Sort, Symbol, System, Update
from busq.lab.proof.states import Scene

__all__ = ["Compiled", "State"]

State = tuple[int, ...]  # for each symbol, the number of its content
Content = dict[tuple[int, ...], Any]
MEMORY = 2_000_000  # steps that are remembered


class Compiled:
    """A system whose steps are taken over interned states, so that a step that was taken before costs one look.

    `elements` gives, for a sort, the symbols and the number of the argument in which its elements are found: what
    stands in no such place makes no difference to a step.  Or it gives them all, as a range.  What is fixed in the
    model is a part of the state here, and is put there when it becomes known.
    """

    def __init__(self, system: System, elements: Mapping[Sort, Sequence[tuple[Symbol, int]] | range]) -> None:
        self.system = system
        self._elements = elements
        self._at = {symbol: at for at, symbol in enumerate(system.symbols)}
        self._contents: list[list[Content]] = [[{}] for _ in system.symbols]
        self._numbers: list[dict[frozenset[Any], int]] = [{frozenset(): 0} for _ in system.symbols]
        self._actions = {action.name: self._compile(action) for action in system.actions}
        self._formulas: dict[Expr, Callable[..., bool]] = {}
        self._steps: dict[tuple[Any, ...], State | None] = {}
        self.beginning: State = (0,) * len(system.symbols)
        self.n_taken = 0  # steps that were taken for the first time

    def step(self, state: State, name: str, *arguments: int) -> State | None:
        """Return the state after a step, or None where the action's guard does not hold."""
        key = (state, name, arguments)
        if key in self._steps:
            return self._steps[key]
        if len(self._steps) >= MEMORY:
            self._steps.clear()
        self.n_taken += 1
        guard, changes = self._actions[name]
        contents = [self._contents[at][number] for at, number in enumerate(state)]
        after: State | None = None
        if guard(contents, *arguments):
            changed = list(state)
            for at, change in changes:
                changed[at] = self._intern(at, change(contents, *arguments))
            after = tuple(changed)
        self._steps[key] = after
        return after

    def get(self, state: State, symbol: Symbol, *place: int) -> Any:
        """Return what a symbol is in one place: True or False, or the value of a function, 0 where it has none yet."""
        at = self._at[symbol]
        return self._contents[at][state[at]].get(place, False if symbol.result is None else 0)

    def holds(self, state: State, formula: Expr) -> bool:
        """Whether a formula without free variables holds in a state."""
        if formula not in self._formulas:
            self._formulas[formula] = eval("lambda S: " + self._text(formula, dict.fromkeys(self.system.sorts, ())))
        return self._formulas[formula]([self._contents[at][number] for at, number in enumerate(state)])

    def places(self, state: State, symbol: Symbol) -> Content:
        """Return all places where a relation holds, or a function has a value that was put there."""
        at = self._at[symbol]
        return self._contents[at][state[at]]

    def put(self, state: State, symbol: Symbol, place: tuple[int, ...], value: Any) -> State:
        """Return the state with another value in one place."""
        at = self._at[symbol]
        return self._with(state, at, {**self._contents[at][state[at]], place: value})

    def begin(self, scene: Scene) -> State:
        """Return the beginning with what is fixed in a scene."""
        state = self.beginning
        for symbol, places in scene.fixed.items():
            for place in places:
                is_relation = symbol.result is None
                state = self.put(state, symbol, *((place, True) if is_relation else (place[:-1], place[-1])))
        return state

    def mixed(self, state: State, other: State, symbols: Sequence[Symbol]) -> State:
        """Return the state with some symbols as they are in another."""
        taken = {self._at[symbol] for symbol in symbols}
        return tuple(other[at] if at in taken else number for at, number in enumerate(state))

    def _with(self, state: State, at: int, content: Content) -> State:
        return (*state[:at], self._intern(at, content), *state[at + 1 :])

    def _intern(self, at: int, content: Content) -> int:
        known, key = self._numbers[at], frozenset(content.items())
        if key not in known:
            known[key] = len(self._contents[at])
            self._contents[at].append(content)
        return known[key]

    def _compile(self, action: Action) -> tuple[Callable[..., bool], list[tuple[int, Callable[..., Content]]]]:
        names = ", ".join(str(parameter) for parameter in action.parameters)
        head = f"lambda S, {names}: " if names else "lambda S: "
        extra = {sort: [str(p) for p in action.parameters if p.sort is sort] for sort in self.system.sorts}
        guard = eval(head + self._text(action.guard, extra))  # the text is made here, of a model
        changes = [(self._at[update.symbol], eval(head + self._update(update, extra))) for update in action.updates]
        return guard, changes

    def _update(self, update: Update, extra: Mapping[Sort, Sequence[str]]) -> str:
        places = [str(place) for place in update.places]
        loops = " ".join(f"for {place} in {self._domain(place.sort, extra)}" for place in update.places)
        at = f"({', '.join(places)},)"
        value = self._text(update.value, extra)
        if update.symbol.result is None:
            return f"{{{at}: True {loops} if {value}}}"
        return f"{{{at}: {value} {loops}}}"

    def _domain(self, sort: Sort | None, extra: Mapping[Sort, Sequence[str]]) -> str:
        assert sort is not None
        given = self._elements[sort]
        if isinstance(given, range):
            return str(given)
        found = [f"{{at[{index}] for at in S[{self._at[symbol]}]}}" for symbol, index in given]
        if extra[sort]:
            found.append(f"{{{', '.join(extra[sort])}}}")
        return f"({' | '.join(found)})"

    def _text(self, expr: Expr, extra: Mapping[Sort, Sequence[str]]) -> str:
        op, args = expr.op, expr.args
        if op in ("forall", "exists"):
            bound, body = args
            loops = " ".join(f"for {one} in {self._domain(one.sort, extra)}" for one in bound)
            return f"{'all' if op == 'forall' else 'any'}({self._text(body, extra)} {loops})"
        if op == "variable":
            return str(args[0])
        if op in ("true", "false"):
            return op.capitalize()
        if op == "apply":
            symbol, *places = args
            at = "".join(f"{self._text(place, extra)}, " for place in places)
            return f"S[{self._at[symbol]}].get(({at}), {'False' if symbol.result is None else 0})"
        texts = [self._text(arg, extra) for arg in args]
        if op == "not":
            return f"(not {texts[0]})"
        if op == "either":
            return f"({texts[1]} if {texts[0]} else {texts[2]})"
        joined = {"and": " and ", "or": " or ", "iff": " == ", "same": " == ", "below": " < "}[op]
        return f"({joined.join(texts)})"
