# SPDX-License-Identifier: Apache-2.0
"""Proofs by a solver: that the invariants of a system are inductive, and that its properties follow, for any sizes.

Nothing is bounded: the solver looks for a state that satisfies all invariants and from which one step leads to a state
that breaks one of them, over sorts of any size, and finds that there is none.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from busq.lab.proof.logic import Action, Expr, Mutant, Sort, System
from busq.lab.proof.result import BROKEN, HOLDS, OPEN, Answer, Counterexample, ProofResult

__all__ = ["SOLVERS", "NoSolver", "impossible_actions", "prove"]

SOLVERS = ("z3", "cvc5")

# Elements of each sort in the counterexamples that are tried, so that those shown are small.
_SMALL = (1, 2, 3, 4, 5)
_SMALL_SECONDS = 20.0
# Steps of the solver in the first try of a question, some half a second; what is proven takes less than 0.1.  A search
# that gets lost rarely ends, and from another beginning rarely gets lost: each try that finds nothing is followed by
# one that is twice as long.  Steps are the same on every machine, and the solver survives their end.  The thread with
# which it ends a search by time may strike a search that is through.
_FIRST_STEPS = 2_000_000
_STEPS_MAX = 2**32 - 1  # the solver counts them in 32 bits
_SECONDS_MAX = 1_000_000  # the solver counts milliseconds in 32 bits


class NoSolver(ImportError):
    """The solver is not installed; the message names the command that installs it."""


def prove(
    system: System,
    *,
    mutant: Mutant | None = None,
    solver: str = "z3",
    seconds: float = 120.0,
    explain: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
) -> ProofResult:
    """Prove a system, or try to prove what a mutant changes.

    `seconds` is the most that one question may take; one that takes longer is left open, and nothing is proven.  Of
    a mutant only the steps that it changes are asked for, since all others are those of the system.  With `explain`,
    the first failure of each step has a small counterexample, or none where none is found in 5 times 20 seconds.
    `progress` is called with the number of answers, that of questions, and a step.  Raises ValueError for seconds that
    are not positive, and NoSolver where z3 is not installed.  The `solver` cvc5 answers the same questions, which z3
    writes down and, with `explain`, illustrates.

    >>> from busq.lab.proof.models import MODELS
    >>> prove(MODELS["multicast"]).is_proven  # doctest: +SKIP
    True
    """
    if not 0 < seconds < _SECONDS_MAX:
        raise ValueError(f"seconds is {seconds}; a question takes more than 0 and less than {_SECONDS_MAX:,} seconds")
    if solver not in SOLVERS:
        raise ValueError(f"solver is {solver!r}; there are {', '.join(SOLVERS)}")
    ask = {"z3": _by_z3, "cvc5": _by_cvc5}[solver]
    begin = time.monotonic()
    asked = system.mutated(mutant) if mutant else system
    reading = _Reading(asked)
    questions = list(_steps(reading, mutant.actions) if mutant else _questions(reading))
    answers: list[Answer] = []
    explained: set[str] = set()
    for question in questions:
        if progress:
            progress(len(answers), len(questions), question.step)
        answer = _answer(reading, question, seconds, ask)
        if explain and answer.verdict == BROKEN and answer.step not in explained:
            explained.add(answer.step)
            answer = dataclasses.replace(answer, counterexample=_explain(reading, question))
        answers.append(answer)
    return ProofResult(asked, tuple(answers), time.monotonic() - begin)


def impossible_actions(system: System) -> list[str]:
    """Return the names of the actions that can't happen in any small state in which all invariants hold.

    An action that can never happen breaks nothing, so a proof with one in it would prove less than it seems to.
    """
    reading = _Reading(system)
    found = []
    for action in system.actions:
        env = reading.constants(action.parameters)
        if reading.small_model([*reading.invariants, reading.read(action.guard, env)]) is None:
            found.append(action.name)
    return found


@dataclasses.dataclass(frozen=True)
class _Question:
    """Whether a claim follows from what is assumed."""

    step: str
    claim: str
    assumed: list[Any]
    concluded: Any
    action: Action | None = None
    arguments: Mapping[Expr, Any] = dataclasses.field(default_factory=dict)


def _questions(reading: _Reading) -> Iterator[_Question]:
    system = reading.system
    beginning = reading.axioms + [reading.read(formula, {}) for formula in system.initial()]
    for claim, formula in system.invariants.items():
        yield _Question("the beginning", claim, beginning, reading.read(formula, {}))
    for claim, formula in system.properties.items():
        yield _Question("the properties", claim, reading.invariants, reading.read(formula, {}))
    yield from _steps(reading, system.actions)


def _steps(reading: _Reading, actions: Sequence[Action]) -> Iterator[_Question]:
    for action in actions:
        arguments = reading.constants(action.parameters)
        assumed = [*reading.invariants, reading.read(action.guard, arguments)]
        for claim, formula in reading.system.invariants.items():
            concluded = reading.read_after(formula, action, arguments)
            yield _Question(action.name, claim, assumed, concluded, action, arguments)


def _answer(reading: _Reading, question: _Question, seconds: float, ask: Callable[[Any, float], str]) -> Answer:
    begin = time.monotonic()
    solver = reading.solver(seconds)
    solver.add(question.assumed)
    solver.add(reading.z3.Not(question.concluded))
    verdict = {"unsat": HOLDS, "sat": BROKEN}.get(ask(solver, seconds), OPEN)
    return Answer(question.step, question.claim, verdict, time.monotonic() - begin)


def _by_z3(solver: Any, seconds: float) -> str:
    """Return the answer of z3, which is asked again from other beginnings until the time is up."""
    found = "unknown"
    end = time.monotonic() + seconds
    steps = _FIRST_STEPS
    for seed in itertools.count(1):
        trial = solver if seed == 1 else _anew(solver)
        trial.set("timeout", max(int((end - time.monotonic()) * 1000), 1))
        trial.set("rlimit", steps)
        trial.set("random_seed", seed)
        found = str(trial.check())
        if found != "unknown" or time.monotonic() >= end:
            break
        steps = min(2 * steps, _STEPS_MAX)
    return found


def _anew(solver: Any) -> Any:
    """Return a solver with the same assertions that has nothing to do with any before it."""
    import z3

    context = z3.Context()
    trial = z3.Solver(ctx=context)
    trial.add([assertion.translate(context) for assertion in solver.assertions()])
    return trial


def _by_cvc5(solver: Any, seconds: float) -> str:
    """Return the answer of cvc5 to the assertions of a solver of z3, by way of their text."""
    try:
        import cvc5
    except ImportError:
        raise NoSolver("this solver is not installed: pip install cvc5", name="cvc5") from None
    engine = cvc5.Solver()
    engine.setOption("tlimit-per", str(int(seconds * 1000)))
    engine.setOption("enum-inst", "true")
    parser = cvc5.InputParser(engine)
    text = "(set-logic UF)\n" + solver.to_smt2().replace("(set-logic UF)", "")
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "question")
    found = ""
    while not (command := parser.nextCommand()).isNull():
        found += command.invoke(engine, parser.getSymbolManager()).strip()
    return found


def _explain(reading: _Reading, question: _Question) -> Counterexample | None:
    model = reading.small_model([*question.assumed, reading.z3.Not(question.concluded)])
    if model is None:
        return None
    names = reading.names(model)

    def name(value: Any) -> str:
        return names.get(str(model.eval(value, True)), "?")

    arguments = {str(parameter): name(value) for parameter, value in question.arguments.items()}
    state: dict[str, list[str]] = {}
    for symbol in reading.system.symbols:
        state[symbol.name] = []
        for at in itertools.product(*(model.get_universe(reading.sorts[sort]) or [] for sort in symbol.sorts)):
            value = model.eval(reading.symbols[symbol](*at), True)
            place = f"({', '.join(name(one) for one in at)})"
            if symbol.result is not None:
                state[symbol.name].append(f"{place}={name(value)}")
            elif reading.z3.is_true(value):
                state[symbol.name].append(place)
    return Counterexample(question.step, arguments, state)


class _Reading:
    """A system as the solver reads it."""

    def __init__(self, system: System) -> None:
        try:
            import z3
        except ImportError:
            raise NoSolver("proofs need z3: pip install 'busq[proof]'", name="z3") from None
        self.z3: Any = z3
        self.system = system
        self.sorts = {sort: z3.DeclareSort(sort.name) for sort in system.sorts}
        self.orders = {
            sort: z3.Function(f"below_{sort.name}", self.sorts[sort], self.sorts[sort], z3.BoolSort())
            for sort in system.sorts
            if sort.is_ordered
        }
        self.symbols = {
            symbol: z3.Function(
                symbol.name,
                *(self.sorts[sort] for sort in symbol.sorts),
                self.sorts[symbol.result] if symbol.result else z3.BoolSort(),
            )
            for symbol in system.symbols
        }
        self._numbers = itertools.count()
        self.axioms = self._order_axioms() + [self.read(formula, {}) for formula in system.axioms.values()]
        self.invariants = self.axioms + [self.read(formula, {}) for formula in system.invariants.values()]

    def solver(self, seconds: float) -> Any:
        """Return a new solver that gives up after so long."""
        solver = self.z3.Solver()
        solver.set("timeout", int(seconds * 1000))
        solver.set("random_seed", 1)
        return solver

    def constants(self, variables: Sequence[Expr]) -> dict[Expr, Any]:
        """Return a new constant for each variable."""
        return {variable: self._constant(str(variable), variable.sort) for variable in variables}

    def read(self, expr: Expr, env: Mapping[Expr, Any]) -> Any:
        """Return an expression about the state, with values for its free variables."""
        return self._read(expr, env, None)

    def read_after(self, expr: Expr, action: Action, arguments: Mapping[Expr, Any]) -> Any:
        """Return a formula about the state after an action, as one about the state before it."""
        return self._read(expr, {}, ({update.symbol: update for update in action.updates}, arguments))

    def _read(self, expr: Expr, env: Mapping[Expr, Any], step: Any) -> Any:
        z3 = self.z3
        if expr.op == "variable":
            return env[expr]
        if expr.op in ("forall", "exists"):
            bound = self.constants(expr.args[0])
            body = self._read(expr.args[1], {**env, **bound}, step)
            return (z3.ForAll if expr.op == "forall" else z3.Exists)(list(bound.values()), body)
        if expr.op == "apply":
            return self._apply(expr, env, step)
        args = [self._read(arg, env, step) for arg in expr.args]
        if expr.op in ("true", "false"):
            return z3.BoolVal(expr.op == "true")
        if expr.op == "below":
            return self.orders[expr.args[0].sort](*args)
        if expr.op in ("iff", "same"):
            return args[0] == args[1]
        join = {"and": z3.And, "or": z3.Or, "not": z3.Not, "either": z3.If}[expr.op]
        return join(*args)

    def _apply(self, expr: Expr, env: Mapping[Expr, Any], step: Any) -> Any:
        symbol, *rest = expr.args
        args = [self._read(arg, env, step) for arg in rest]
        if step is None or symbol not in step[0]:
            return self.symbols[symbol](*args)
        updates, arguments = step
        update = updates[symbol]
        return self._read(update.value, {**arguments, **dict(zip(update.places, args, strict=True))}, None)

    def _constant(self, name: str, sort: Sort | None) -> Any:
        assert sort is not None
        return self.z3.Const(f"{name}!{next(self._numbers)}", self.sorts[sort])

    def _order_axioms(self) -> list[Any]:
        z3 = self.z3
        axioms = []
        for sort, below in self.orders.items():
            x, y, z = (self._constant(name, sort) for name in "xyz")
            axioms += [
                z3.ForAll([x], z3.Not(below(x, x))),
                z3.ForAll([x, y, z], z3.Implies(z3.And(below(x, y), below(y, z)), below(x, z))),
                z3.ForAll([x, y], z3.Or(below(x, y), x == y, below(y, x))),
            ]
        return axioms

    def small_model(self, assertions: Sequence[Any]) -> Any:
        """Return a model with as few elements of each sort as can be, or None where there is none of 5."""
        z3 = self.z3
        for bound in _SMALL:
            solver = self.solver(_SMALL_SECONDS)
            solver.add(assertions)
            for sort in self.sorts:
                elements = [self._constant(f"{sort.name}{n}", sort) for n in range(bound)]
                x = self._constant("x", sort)
                solver.add(z3.ForAll([x], z3.Or([x == element for element in elements])))
            if solver.check() == z3.sat:
                return solver.model()
        return None

    def names(self, model: Any) -> dict[str, str]:
        """Return a short name for each element of a model; those of an ordered sort count upwards."""
        found: dict[str, str] = {}
        for sort, its in self.sorts.items():
            elements = list(model.get_universe(its) or [])
            if sort.is_ordered:
                ranks = {str(x): self._rank(model, sort, elements, x) for x in elements}
                elements.sort(key=lambda x, ranks=ranks: ranks[str(x)])  # type: ignore[misc]
            found |= {str(x): f"{sort.name.lower()}{n}" for n, x in enumerate(elements)}
        return found

    def _rank(self, model: Any, sort: Sort, elements: Sequence[Any], x: Any) -> int:
        return sum(self.z3.is_true(model.eval(self.orders[sort](y, x), True)) for y in elements)
