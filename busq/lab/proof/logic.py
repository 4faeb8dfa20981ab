# SPDX-License-Identifier: Apache-2.0
"""The language of models: formulas over named sorts, guarded actions, and systems of them.

A model is written once and read twice: by a solver, for sorts of any size (`solver.py`), and by a search through all
states over small sorts (`states.py`).  An expression is a value without meaning of its own:

>>> Msg = Sort("Msg", is_ordered=True)
>>> sent = relation("sent", Msg)
>>> m, n = variables("m n", Msg)
>>> print(forall(m, sent(m) >> exists(n, below(n, m))))
forall m. (not sent(m) or exists n. n < m)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = [
    "FALSE",
    "TRUE",
    "Action",
    "Expr",
    "Mutant",
    "Sort",
    "Symbol",
    "System",
    "Update",
    "all_of",
    "any_of",
    "at_most",
    "below",
    "clear",
    "either",
    "exists",
    "forall",
    "function",
    "iff",
    "map_to",
    "put",
    "relation",
    "same",
    "set_",
    "variables",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Sort:
    """A kind of things, finitely many or not: messages, queues, times.  An ordered sort has a total order."""

    name: str
    is_ordered: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Expr:
    """A formula, where `sort` is None, or a term of a sort.  Formulas are joined by `&`, `|`, `~` and `>>` (implies).

    Two expressions are equal only if they are the same object: `same` makes the formula that two terms are equal.
    """

    op: str
    args: tuple[Any, ...] = ()
    sort: Sort | None = None

    def __and__(self, other: Expr) -> Expr:
        return all_of(self, other)

    def __or__(self, other: Expr) -> Expr:
        return any_of(self, other)

    def __invert__(self) -> Expr:
        return Expr("not", (self,))

    def __rshift__(self, other: Expr) -> Expr:
        return any_of(~self, other)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} is a formula, which is neither true nor false before it is read")

    def __str__(self) -> str:
        return _text(self)


TRUE = Expr("true")
FALSE = Expr("false")


@dataclasses.dataclass(frozen=True, eq=False)
class Symbol:
    """A relation, where `result` is None, or a function; what is fixed does not change in an execution."""

    name: str
    sorts: tuple[Sort, ...]
    result: Sort | None = None
    is_fixed: bool = False

    def __call__(self, *args: Expr) -> Expr:
        """Return the symbol applied to terms; TypeError names the sorts if they are not those of the symbol."""
        found = tuple(arg.sort for arg in args)
        if found != self.sorts:
            wanted = ", ".join(sort.name for sort in self.sorts)
            given = ", ".join(sort.name if sort else "formula" for sort in found)
            raise TypeError(f"{self.name} takes ({wanted}), not ({given})")
        return Expr("apply", (self, *args), self.result)


@dataclasses.dataclass(frozen=True, eq=False)
class Update:
    """What a symbol is after a step: at `places`, the value of an expression over the state before it."""

    symbol: Symbol
    places: tuple[Expr, ...]
    value: Expr


@dataclasses.dataclass(frozen=True, eq=False)
class Action:
    """A step: for any values of the parameters that the guard admits, all updates at once.

    `is_free_in` names parameters whose admitted values differ in nothing but their names: a search takes one of them.
    """

    name: str
    parameters: tuple[Expr, ...]
    guard: Expr
    updates: tuple[Update, ...]
    is_free_in: tuple[Expr, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Mutant:
    """A rule that is broken on purpose: the actions that take the places of those with the same names."""

    name: str
    meaning: str
    actions: tuple[Action, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """A model: what there is, what can happen, what is held to be true, and which rule is needed for it.

    In the beginning no relation that can change holds of anything, and functions have any values.  `axioms` are about
    what is fixed.  The `properties` are what users rely on: they follow from the `invariants`, which are inductive.
    """

    name: str
    meaning: str
    sorts: tuple[Sort, ...]
    symbols: tuple[Symbol, ...]
    axioms: Mapping[str, Expr]
    actions: tuple[Action, ...]
    invariants: Mapping[str, Expr]
    properties: Mapping[str, Expr]
    mutants: tuple[Mutant, ...] = ()

    def mutant(self, name: str) -> Mutant:
        """Return the mutant of that name; LookupError names those that there are."""
        for mutant in self.mutants:
            if mutant.name == name:
                return mutant
        known = ", ".join(mutant.name for mutant in self.mutants)
        raise LookupError(f"{self.name} has no mutant {name!r}: {known}")

    def mutated(self, mutant: Mutant) -> System:
        """Return the system with the actions of a mutant."""
        changed = {action.name: action for action in mutant.actions}
        actions = tuple(changed.pop(action.name, action) for action in self.actions)
        if changed:
            raise LookupError(f"{self.name} has no action {', '.join(changed)}")
        return dataclasses.replace(self, name=f"{self.name}:{mutant.name}", actions=actions)

    def initial(self) -> Iterator[Expr]:
        """Yield what is true in the beginning."""
        for symbol in self.symbols:
            if symbol.result is None and not symbol.is_fixed:
                places = _places(symbol)
                yield forall(*places, ~symbol(*places))


def relation(name: str, *sorts: Sort, is_fixed: bool = False) -> Symbol:
    """Return a relation between things of these sorts."""
    return Symbol(name, sorts, None, is_fixed)


def function(name: str, *sorts: Sort, to: Sort, is_fixed: bool = False) -> Symbol:
    """Return a function from these sorts to another."""
    return Symbol(name, sorts, to, is_fixed)


def variables(names: str, sort: Sort) -> tuple[Expr, ...]:
    """Return variables of a sort, one for each name."""
    return tuple(Expr("variable", (name,), sort) for name in names.split())


def all_of(*parts: Expr) -> Expr:
    """Return the formula that all of these hold."""
    kept = tuple(part for part in parts if part is not TRUE)
    return kept[0] if len(kept) == 1 else Expr("and", kept) if kept else TRUE


def any_of(*parts: Expr) -> Expr:
    """Return the formula that one of these holds, or several."""
    kept = tuple(part for part in parts if part is not FALSE)
    return kept[0] if len(kept) == 1 else Expr("or", kept) if kept else FALSE


def iff(one: Expr, other: Expr) -> Expr:
    """Return the formula that either both hold, or neither."""
    return Expr("iff", (one, other))


def same(one: Expr, other: Expr) -> Expr:
    """Return the formula that two terms of a sort are equal."""
    _check_sorts(one, other)
    return Expr("same", (one, other))


def below(one: Expr, other: Expr) -> Expr:
    """Return the formula that a term is strictly below another of its ordered sort."""
    _check_sorts(one, other)
    return Expr("below", (one, other))


def at_most(one: Expr, other: Expr) -> Expr:
    """Return the formula that a term is below another of its ordered sort, or equal."""
    return ~below(other, one)


def either(condition: Expr, one: Expr, other: Expr) -> Expr:
    """Return the term that is `one` where the condition holds, and otherwise `other`."""
    _check_sorts(one, other)
    return Expr("either", (condition, one, other), one.sort)


def forall(*bound_and_body: Expr) -> Expr:
    """Return the formula that the last argument holds for all values of the variables before it."""
    *bound, body = bound_and_body
    return Expr("forall", (tuple(bound), body))


def exists(*bound_and_body: Expr) -> Expr:
    """Return the formula that the last argument holds for some values of the variables before it."""
    *bound, body = bound_and_body
    return Expr("exists", (tuple(bound), body))


def map_to(symbol: Symbol, places: Iterable[Expr], value: Expr) -> Update:
    """Return the update that gives a symbol a value everywhere, by an expression over variables for the places."""
    return Update(symbol, tuple(places), value)


def set_(symbol: Symbol, *at: Expr) -> Update:
    """Return the update after which a relation holds in one place more."""
    places = _places(symbol)
    return Update(symbol, places, _is_at(places, at) | symbol(*places))


def clear(symbol: Symbol, *at: Expr) -> Update:
    """Return the update after which a relation does not hold in one place."""
    places = _places(symbol)
    return Update(symbol, places, ~_is_at(places, at) & symbol(*places))


def put(symbol: Symbol, *at_and_value: Expr) -> Update:
    """Return the update that gives a symbol a value, the last argument, in one place."""
    *at, value = at_and_value
    places = _places(symbol)
    is_here = _is_at(places, at)
    if symbol.result is None:
        return Update(symbol, places, any_of(is_here & value, ~is_here & symbol(*places)))
    return Update(symbol, places, either(is_here, value, symbol(*places)))


def _places(symbol: Symbol) -> tuple[Expr, ...]:
    return tuple(Expr("variable", (f"{sort.name.lower()}{n}",), sort) for n, sort in enumerate(symbol.sorts))


def _is_at(places: Iterable[Expr], at: Iterable[Expr]) -> Expr:
    return all_of(*(same(place, value) for place, value in zip(places, at, strict=True)))


def _check_sorts(one: Expr, other: Expr) -> None:
    if one.sort is None or one.sort is not other.sort:
        names = [expr.sort.name if expr.sort else "a formula" for expr in (one, other)]
        raise TypeError(f"{one} and {other} are of different sorts: {names[0]}, {names[1]}")


_INFIX = {"and": " and ", "or": " or ", "iff": " iff ", "same": " = ", "below": " < "}


def _text(expr: Expr) -> str:
    args = expr.args
    if expr.op in ("true", "false"):
        return expr.op
    if expr.op == "variable":
        return str(args[0])
    if expr.op == "not":
        return f"not {args[0]}"
    if expr.op == "either":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if expr.op == "apply":
        return f"{args[0].name}({', '.join(map(str, args[1:]))})"
    if expr.op in ("forall", "exists"):
        return f"{expr.op} {' '.join(map(str, args[0]))}. {args[1]}"
    joined = _INFIX[expr.op].join(map(str, args))
    return joined if expr.op in ("same", "below") else f"({joined})"
