# SPDX-License-Identifier: Apache-2.0
"""The laboratory's errors about wrong arguments: the argument, what was found and what was expected.

Every public function and method of its modules is found by reflection, and every parameter gets values that its
annotation does not allow.  CALLS has a call of each that is right but for the one argument.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import busq
from busq import check, diagram, execution, orders, scenario, sim, spec, stage, trace, workload

MODULES = ("check", "diagram", "execution", "orders", "scenario", "sim", "spec", "stage", "trace", "workload")

# Words of what lies behind the doors, and of built-in functions that were never called.
INTERNAL = re.compile(
    r"cdata|ctype|cffi|initializer|an integer is required|could not convert|has no attribute|not iterable|unhashable"
    r"|object is not|object cannot be|unsupported operand|not supported between|has no len|not subscriptable|_\w+\(\)"
)

NOT_TEXT = [None, 5, 1.5, True, b"fifo", [], {}, object()]
NOT_WHOLE = [None, 1.5, "8", b"8", [], {}, object()]
NOT_NUMBERS = ["1", b"1", [], {}, object()]
NOT_ITERABLE = [None, 5, 1.5, True, object()]
NOT_PATHS = [None, 5, 1.5, True, b"path", [], object()]
NOT_PROCESSES = [None, 1.5, b"p0", [], {}, object()]
NOT_TRUTHS = ["yes", 1, None, [], object()]

WRONG: dict[str, list[Any]] = {
    "str": NOT_TEXT,
    "str | bytes": [None, 5, 1.5, True, [], {}, object()],
    "str | None": [5, 1.5, True, b"fifo", [], {}, object()],
    "int": NOT_WHOLE,
    "int | None": [1.5, "8", b"8", [], {}, object()],
    "float": [None, *NOT_NUMBERS],
    "float | None": NOT_NUMBERS,
    "Process": NOT_PROCESSES,
    "Process | None": [1.5, b"p0", [], {}, object()],
    "Process | Iterable[Process]": [None, 1.5, b"p0", object(), [None], [[]], [b"p0"]],
    "int | Iterable[str]": [None, 1.5, object(), [5], [[]], [None]],
    "Iterable[str]": [*NOT_ITERABLE, [5], [[]], [None]],
    "Iterable[str] | None": [5, 1.5, True, object(), [5], [[]], [None]],
    "Iterable[int]": [*NOT_ITERABLE, "a", ["a"], [[]], [None], [1.5]],
    "Iterable[Partition]": [*NOT_ITERABLE, "a", ["a"], [[]], [None]],
    "int | Sequence[int]": [None, 1.5, object(), "a", "1", b"1", {}, [], ["a"], [None], [1, 1.5], range(9)],
    "int | Iterable[Crash]": [None, 1.5, object(), "a", ["a"], [[]], [None]],
    "Destinations | None": [5, 1.5, object(), {}, set(), [5, 5], [[5], [5]], [[[None]], [[0]]], [[[[]]], [[0]]]],
    "str | os.PathLike[str]": NOT_PATHS,
    "str | os.PathLike[str] | None": [value for value in NOT_PATHS if value is not None],
    "str | Path": NOT_PATHS,
    "Source | str | os.PathLike[str]": NOT_PATHS,
    "Iterable[str | os.PathLike[str]] | str | os.PathLike[str]": [None, 5, 1.5, b"path", object(), [5], [b"path"]],
    "Mapping[str, str] | None": [5, "a", [], object(), {"parser": 5}],
    "Mapping[int, str] | None": [5, "a", [], object()],
    "Mapping[str, Verdict] | Iterable[tuple[str, Verdict]]": [5, None, "a", [5], [()], {"fifo": 5}, [("fifo", None)]],
    "pa.Table | pa.RecordBatch | Mapping[str, Any]": [None, 5, "a", [], object()],
}
WRONG |= {name: [None, 5, "a", b"b", [], {}, object()] for name in ("Config", "History", "Execution", "Stage", "Run")}
WRONG |= {name: [None, 5, "a", b"b", [], {}, object()] for name in ("Bus", "Schedule", "Faults")}
WRONG |= {name: [5, "a", b"b", [], {}, object()] for name in ("Schedule | None", "Callable[[], bool]")}
WRONG |= {name: [5, "a", [], {}, object()] for name in ("Progress | None", "Callable[[Progress], None] | None")}
WRONG["Callable[[int, int], None] | None"] = [5, "a", [], {}, object()]
WRONG["Sequence[str]"] = WRONG["Iterable[str]"]
WRONG["Sequence[str] | None"] = WRONG["Iterable[str] | None"]
WRONG["Iterable[str] | int"] = WRONG["int | Iterable[str]"]

Make = Callable[[Path], tuple[Callable[..., Any], dict[str, Any]]]


def fresh(**options: Any) -> stage.Stage:
    """A stage on which one packet is under way."""
    made = stage.Stage("none", 2, **options)
    made.submit(0, "m1", 1)
    return made


def shown(**options: Any) -> None:
    """Serve the page of a stage, and end it."""
    stage.show(**options).close()


def history() -> spec.History:
    return spec.History(2)


def played() -> execution.Execution:
    return fresh().execution()


def example() -> check.Counterexample:
    found = check.run("none", 2, 2, threads=1, memory=1 << 24, properties=["fifo"]).counterexample
    assert found is not None
    return found


def some_bus() -> busq.Bus:
    return busq.Bus.create("wrong-types", peers=2, capacity=4, arena=1 << 16, exist_ok=True)


def some_run() -> trace.Run:
    return trace.Run(trace.Source("a", "busq", (), 0), (), ())


CALLS: dict[str, Make] = {
    "check.run": lambda _: (
        check.run,
        {"protocol": "none", "processes": 2, "messages": 1, "threads": 1, "memory": 1 << 24},
    ),
    "check.lattice": lambda _: (
        lambda **given: list(check.lattice(**given)),
        {"names": ["none"], "properties": ["fifo"], "threads": 1, "memory": 1 << 24},
    ),
    "check.run_groups": lambda _: (
        check.run_groups,
        {"processes": 3, "changes": 1, "messages": 1, "memory": 1 << 24},
    ),
    "check.Counterexample.scenario": lambda _: (example().scenario, {}),
    "check.Counterexample.from_json": lambda _: (check.Counterexample.from_json, {}),
    "diagram.draw": lambda path: (diagram.draw, {"execution": played(), "path": path / "picture.svg"}),
    "execution.Execution.label": lambda _: (played().label, {}),
    "execution.Execution.history": lambda _: (played().history, {}),
    "execution.Execution.judge": lambda _: (played().judge, {}),
    "execution.Execution.from_json": lambda _: (execution.Execution.from_json, {}),
    "execution.Execution.from_history": lambda _: (execution.Execution.from_history, {"history": history()}),
    "execution.message_name": lambda _: (execution.message_name, {"origin": 0, "number": 1}),
    "orders.Order.needs_fifo": lambda _: (orders.ORDERS["none"].needs_fifo, {}),
    "orders.Order.replicas": lambda _: (orders.ORDERS["wbam"].replicas, {}),
    "orders.Order.under_crashes": lambda _: (orders.ORDERS["none"].under_crashes, {}),
    "orders.parse": lambda _: (orders.parse, {}),
    "scenario.Player": lambda _: (scenario.Player, {}),
    "scenario.Player.play": lambda _: (scenario.Player(fresh()).play, {}),
    "scenario.load": lambda _: (scenario.load, {}),
    "scenario.play": lambda _: (scenario.play, {"text": "order none: p q"}),
    "scenario.remains": lambda _: (lambda stage: list(scenario.remains(stage)), {}),
    "sim.Config": lambda _: (sim.Config, {"order": "none"}),
    "sim.Crash": lambda _: (sim.Crash, {"process": 0, "at_s": 1.0}),
    "sim.Faults": lambda _: (sim.Faults, {}),
    "sim.Partition": lambda _: (sim.Partition, {"begin_s": 1, "end_s": 2, "side": [0]}),
    "sim.run": lambda _: (sim.run, {}),
    "spec.History": lambda _: (spec.History, {}),
    "spec.History.send": lambda _: (history().send, {"process": 0, "message": 1, "to": 1}),
    "spec.History.deliver": lambda _: (history().deliver, {"process": 0, "message": 1}),
    "spec.History.send_many": lambda _: (history().send_many, {"process": 0, "messages": [1], "to": 1}),
    "spec.History.deliver_many": lambda _: (history().deliver_many, {"process": 0, "messages": [1]}),
    "spec.History.extend": lambda _: (
        history().extend,
        {"process": 0, "kinds": [1], "messages": [1], "destination_counts": [1], "destinations": [1]},
    ),
    "spec.History.judge": lambda _: (history().judge, {}),
    "spec.History.events": lambda _: (history().events, {}),
    "spec.History.destinations": lambda _: (history().destinations, {}),
    "spec.classify": lambda _: (spec.classify, {}),
    "stage.Stage": lambda _: (stage.Stage, {"order": "none", "processes": 2}),
    "stage.show": lambda _: (shown, {"order": "none"}),
    "stage.Stage.submit": lambda _: (fresh().submit, {"process": 0}),
    "stage.Stage.receive": lambda _: (fresh().receive, {}),
    "stage.Stage.lose": lambda _: (fresh().lose, {}),
    "stage.Stage.double": lambda _: (fresh().double, {}),
    "stage.Stage.tick": lambda _: (fresh().tick, {}),
    "stage.Stage.crash": lambda _: (fresh().crash, {"process": 0}),
    "stage.Stage.doom": lambda _: (fresh().doom, {"process": 0, "effects": 1}),
    "stage.Stage.learn": lambda _: (fresh().learn, {"process": 0, "dead": 1}),
    "stage.Stage.work": lambda _: (fresh().work, {"process": 0}),
    "stage.Stage.rest": lambda _: (fresh().rest, {"process": 0}),
    "stage.Stage.run": lambda _: (fresh().run, {}),
    "stage.Stage.run_silently": lambda _: (fresh().run_silently, {}),
    "stage.Stage.find": lambda _: (fresh().find, {}),
    "stage.Stage.gauge": lambda _: (fresh().gauge, {}),
    "stage.Stage.brings_payload": lambda _: (fresh().brings_payload, {}),
    "stage.Stage.label": lambda _: (fresh().label, {}),
    "stage.Stage.history": lambda _: (fresh().history, {}),
    "stage.Stage.judge": lambda _: (fresh().judge, {}),
    "trace.Recorder": lambda path: (trace.Recorder, {"bus": some_bus(), "directory": path}),
    "trace.Writer": lambda path: (trace.Writer, {"directory": path}),
    "trace.Writer.name": lambda path: (trace.Writer(path).name, {"process": 0, "name": "ann"}),
    "trace.Writer.write": lambda path: (trace.Writer(path).write, {"process": 0, "columns": {}}),
    "trace.find": lambda path: (trace.find, {"paths": path}),
    "trace.message_of": lambda _: (trace.message_of, {"sender": 0, "number": 1}),
    "trace.number_of": lambda _: (trace.number_of, {}),
    "trace.read": lambda path: (trace.read, {"source": path}),
    "trace.record": lambda path: (trace.record, {"bus": some_bus(), "directory": path, "seconds": 0}),
    "trace.sender_of": lambda _: (trace.sender_of, {}),
    "trace.write": lambda path: (trace.write, {"run": some_run(), "directory": path / "written"}),
    "workload.Schedule.to": lambda _: (workload.skewed(1).to, {}),
    "workload.by_traffic": lambda _: (workload.by_traffic, {}),
    "workload.read": lambda path: (workload.read, {"path": path / "schedule.csv"}),
    "workload.skewed": lambda _: (workload.skewed, {"messages": 1}),
}

# What an argument is called that an error speaks of by another name.
CALLED = {"orders.parse text": "order"}


def signatures() -> Iterator[tuple[str, inspect.Signature]]:
    """Every public callable of the laboratory with its parameters; what only holds values is not a door."""
    for module in MODULES:
        found = importlib.import_module(f"busq.{module}")
        for name in found.__all__:
            one = getattr(found, name)
            if inspect.isfunction(one):
                yield f"{module}.{name}", inspect.signature(one)
            elif inspect.isclass(one) and not issubclass(one, (BaseException, int)):
                yield from signatures_of_class(f"{module}.{name}", one)


def signatures_of_class(name: str, one: type) -> Iterator[tuple[str, inspect.Signature]]:
    if not dataclasses.is_dataclass(one) or hasattr(one, "__post_init__"):
        yield name, inspect.signature(one)
    for method, member in vars(one).items():
        if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod)):
            signature = inspect.signature(getattr(one, method))
            first = 0 if isinstance(member, classmethod) else 1
            yield f"{name}.{method}", signature.replace(parameters=list(signature.parameters.values())[first:])


PARAMETERS = [
    (name, parameter, str(found.annotation))
    for name, signature in signatures()
    for parameter, found in signature.parameters.items()
]


def test_every_parameter_of_the_laboratory_has_a_call_and_wrong_values() -> None:
    assert {name for name, *_ in PARAMETERS} == set(CALLS)
    assert {annotation for *_, annotation in PARAMETERS} <= {*WRONG, "bool"}


@pytest.mark.parametrize(
    ("name", "parameter", "annotation"), PARAMETERS, ids=[f"{name} {parameter}" for name, parameter, _ in PARAMETERS]
)
def test_a_wrong_type_is_told(tmp_path: Path, name: str, parameter: str, annotation: str) -> None:
    call, right = CALLS[name](tmp_path)
    argument = CALLED.get(f"{name} {parameter}", parameter)
    for value in WRONG.get(annotation, []):
        with pytest.raises((TypeError, ValueError)) as caught:
            call(**{**right, parameter: value})
        said = str(caught.value)
        assert re.search(rf"\b{argument}\b.* (has type \w+|is .*): expected ", said), (value, said)
        assert not INTERNAL.search(said), (value, said)
    assert not list(tmp_path.glob("**/*.parquet"))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name, parameter, annotation in PARAMETERS if annotation.startswith(("int", "Process"))],
    ids=str,
)
@pytest.mark.parametrize("value", [-1, 1 << 80, True])
def test_a_number_that_cannot_be_is_refused_in_plain_words_or_taken(
    tmp_path: Path, name: str, parameter: str, value: int
) -> None:
    call, right = CALLS[name](tmp_path)
    said = ""
    try:
        result = call(**{**right, parameter: value})
        if isinstance(result, trace.Recorder):
            result.close()
    except (ValueError, LookupError, OSError) as error:
        said = str(error)
    assert not INTERNAL.search(said)


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, one) for name, one, annotation in PARAMETERS if annotation == "bool"], ids=str
)
def test_what_is_true_or_false_may_be_anything_that_is_either(tmp_path: Path, name: str, parameter: str) -> None:
    call, right = CALLS[name](tmp_path)
    for value in NOT_TRUTHS:
        said = ""
        try:
            call(**{**right, parameter: value})
        except ValueError as error:
            said = str(error)
        assert not said or re.match(rf"{parameter}(:| is .*: expected)", said)


@pytest.mark.parametrize("make", [spec.History, lambda names: stage.Stage("none", names)], ids=["History", "Stage"])
def test_processes_without_an_end_are_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="processes has more than 65536 names: expected 65536 at most"):
        make(f"p{number}" for number in itertools.count())
    with pytest.raises(ValueError, match=f"processes is {1 << 80}: expected a number from 0 to 65536, or names"):
        make(1 << 80)


def test_what_was_refused_has_changed_nothing() -> None:
    ours, theirs = fresh(), history()
    before = ours.execution(), ours.packets
    for wrong in (lambda: ours.submit(0, "m2", [1, None]), lambda: ours.run(seed=None), lambda: ours.work(0, "m1")):
        with pytest.raises(TypeError):
            wrong()
    for wrong in (lambda: theirs.send(0, 1, [1, None]), lambda: theirs.deliver_many(0, [1, "2"])):
        with pytest.raises(TypeError):
            wrong()
    assert (ours.execution(), ours.packets) == before
    assert theirs.facts().events == 0


@pytest.mark.parametrize("processes", [-1, 0, 1 << 20, 1 << 80])
def test_a_stage_of_a_size_that_cannot_be_is_refused_before_it_is_named(processes: int) -> None:
    with pytest.raises((ValueError, busq.NoSpace)):
        stage.Stage("fifo", processes)
