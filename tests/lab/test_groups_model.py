# SPDX-License-Identifier: Apache-2.0
"""The model of the protocol of groups: what holds, and what breaks as soon as one of its rules is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

from busq.check import FAULTS, VARIANTS, GroupsResult, run_groups

LITTLE = {"memory": 256 << 20}


def search(**asked: Any) -> GroupsResult:
    return run_groups(**{"processes": 3, "members": 2, **LITTLE, **asked})


def figures(result: GroupsResult) -> tuple[int, int, int]:
    return result.unique_states, result.total_states, result.max_depth


# ---- the protocol as it is ----


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"reductions": False}, (3785, 8529, 24)),
        ({}, (1315, 1812, 24)),
        ({"whole_steps": True, "reductions": False}, (2578, 6172, 21)),
        ({"whole_steps": True}, (406, 547, 18)),
        ({"changes": 2}, (37473, 61819, 43)),
        ({"changes": 2, "kills": 1}, (60742, 98240, 52)),
        ({"stops": 1}, (5977, 9541, 30)),
        ({"named": True}, (1765, 2773, 18)),
        ({"changes": 2, "kills": 1, "named": True}, (87486, 152583, 53)),
        ({"messages": 2}, (79477, 136342, 41)),
    ],
    ids=str,
)
def test_it_holds_in_every_execution(asked: dict[str, Any], expected: tuple[int, int, int]) -> None:
    result = search(**asked)
    assert result.holds
    assert result.complete
    assert result.counterexample is None
    assert figures(result) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    "asked",
    [
        {"processes": 4, "changes": 2, "messages": 1, "kills": 1, "stops": 1},
        {"processes": 3, "changes": 2, "messages": 2},
        {"processes": 3, "changes": 3, "messages": 1, "kills": 2},
        {"processes": 4, "changes": 2, "messages": 2, "kills": 1, "whole_steps": True},
        {"processes": 3, "changes": 3, "messages": 2, "whole_steps": True},
        {"processes": 4, "changes": 3, "messages": 2, "whole_steps": True, "put_offs": 0},
    ],
    ids=str,
)
def test_it_holds_within_larger_bounds(asked: dict[str, Any]) -> None:
    result = search(**asked, memory=4 << 30)
    print(asked, figures(result), f"{result.seconds:.0f} s", f"{result.memory_bytes >> 20} MiB")
    assert result.complete
    assert result.holds


# ---- without a rule ----

# What shows it in the fewest steps, and in how many.
MUTANTS: dict[str, tuple[dict[str, Any], str, int]] = {
    "naive": ({}, "misplaced", 11),
    "no-look": ({}, "missed", 13),
    "no-install": ({}, "endless", 10),
    "no-put-off": ({}, "missed", 14),
    "by-number": ({}, "misplaced", 14),
    "by-word": ({}, "missed", 12),
    "torn-look": ({}, "outside", 12),
    "no-claim": ({}, "missed", 14),
    "new-only": ({}, "skipped", 4),
    "old-only": ({}, "outside", 11),
    "no-sync": ({}, "missed", 15),
    "no-break": ({"changes": 2, "stops": 1}, "stuck", 3),
    "no-help": ({"stops": 1}, "stuck", 9),
    "no-release": ({"changes": 2}, "stuck", 3),
    "no-undo": ({"changes": 2, "kills": 1}, "stuck", 2),
    "mourn-twice": ({"changes": 2, "kills": 1, "messages": 0}, "unequal", 12),
    "blind-named": ({"named": True}, "doubled", 17),
    "forget-dead": ({"members": 1, "changes": 2, "kills": 1}, "misplaced", 14),
}
# Rules for what is not of this level: what a dead process had in hand, and records that are used again.
OF_OTHER_LEVELS: dict[str, dict[str, Any]] = {
    "no-settle": {"changes": 2, "kills": 1},
    "reader-leaves": {"changes": 2, "kills": 1},
}


def test_every_rule_is_left_out_somewhere() -> None:
    assert {"", *MUTANTS, *OF_OTHER_LEVELS} == set(VARIANTS)


@pytest.mark.parametrize("variant", MUTANTS)
def test_without_a_rule_the_shortest_violation_is_found(variant: str) -> None:
    bound, fault, steps = MUTANTS[variant]
    result = search(**bound, variant=variant, reductions=False)
    example = result.counterexample
    assert example is not None, "not found"
    assert (example.fault, len(example.steps)) == (fault, steps), example.transcript()
    assert example.is_shortest
    assert example.sentence
    assert len(example.transcript().splitlines()) == steps
    assert not result.complete


@pytest.mark.parametrize("variant", MUTANTS)
def test_reductions_hide_no_rule_that_is_left_out(variant: str) -> None:
    bound, _, steps = MUTANTS[variant]
    example = search(**bound, variant=variant).counterexample
    assert example is not None, "not found"
    assert len(example.steps) >= steps


# Where no process dies, stops or is put off, and steps are whole, much more comes at once.
SMOOTH = {"whole_steps": True, "put_offs": 0}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (241, 284, 18)),
        ({"changes": 2, "messages": 2}, (45381, 54016, 52)),
        ({"processes": 4, "changes": 2}, (3489, 4238, 38)),
    ],
    ids=str,
)
def test_it_holds_where_more_comes_at_once(asked: dict[str, Any], expected: tuple[int, int, int]) -> None:
    result = search(**SMOOTH, **asked)
    assert result.holds
    assert result.complete
    assert figures(result) == expected


@pytest.mark.parametrize("variant", [name for name, (bound, _, _) in MUTANTS.items() if not bound])
def test_what_comes_at_once_hides_no_rule_that_is_left_out(variant: str) -> None:
    whole = search(**SMOOTH, variant=variant, reductions=False)
    found = search(**SMOOTH, variant=variant)
    assert (found.counterexample is None) == (whole.counterexample is None)
    assert found.complete == whole.complete


@pytest.mark.parametrize("variant", OF_OTHER_LEVELS)
def test_rules_of_other_levels_do_not_show_here(variant: str) -> None:
    result = search(**OF_OTHER_LEVELS[variant], variant=variant)
    assert result.complete
    assert result.holds


def test_the_naive_protocol_and_how_it_fails() -> None:
    result = search(variant="naive", reductions=False)
    example = result.counterexample
    assert example is not None
    assert figures(result) == (954, 1704, 11)
    assert example.transcript() == NAIVE
    assert example.sentence == "alice delivers m1 in view 2, and it was sent to view 1"


NAIVE = """\
alice looks at the group: m1 goes to view 1 (alice, bob)
bob claims view 2: bob leaves
bob stages view 2 at alice, at 2
alice stages m1 at alice, at 3
bob stages view 2 at bob, at 2
alice stages m1 at bob, at 3
alice commits m1 at 3
bob commits view 2 at 2
bob installs view 2 (alice)
alice delivers view 2
alice delivers m1
"""


# ---- depth first ----


BOUNDS = [{}, {"changes": 2, "kills": 1}, {"messages": 2, "whole_steps": True}, {"named": True}]


@pytest.mark.parametrize("bound", BOUNDS)
def test_depth_first_the_same_states_are_seen(bound: dict[str, Any]) -> None:
    breadth = search(**bound, reductions=False, search="breadth")
    depth = search(**bound, reductions=False, search="depth")
    assert (breadth.search, depth.search) == ("breadth", "depth")
    for name in ("holds", "complete", "unique_states", "total_states", "ends"):
        assert getattr(depth, name) == getattr(breadth, name), name


@pytest.mark.parametrize("bound", BOUNDS)
def test_depth_first_reductions_leave_the_same_ends(bound: dict[str, Any]) -> None:
    breadth, depth = search(**bound), search(**bound, search="depth")
    # Which of two quiet moves comes first depends on which of two states that differ in names alone was met first.
    assert abs(depth.unique_states - breadth.unique_states) < breadth.unique_states // 100
    assert (depth.holds, depth.complete, depth.ends) == (breadth.holds, True, breadth.ends)


def test_depth_first_a_violation_is_told_with_a_shortest_way() -> None:
    found = search(variant="naive", search="depth").counterexample
    assert found is not None
    assert found == search(variant="naive").counterexample


def test_depth_first_a_violation_may_have_no_way() -> None:
    found = search(processes=4, changes=2, messages=2, variant="naive", search="depth", memory=1 << 20)
    assert not found.holds
    assert found.counterexample is None


# ---- as text, JSON and picture ----


def run(*arguments: str) -> Any:
    bound = ["--processes", "3", "--members", "2", "--memory", "64MiB"]
    return run_command("check", "groups", *bound, *arguments)


def test_a_search_that_holds_in_words() -> None:
    result = run("--kills", "1")
    assert result.exit_code == 0, result.output
    assert "HOLDS in every execution within this bound" in result.stdout
    assert "3 processes, 2 of them members" in result.stdout


def test_a_violation_in_words_and_as_files(tmp_path: Path) -> None:
    path, picture = tmp_path / "naive.json", tmp_path / "naive.svg"
    result = run("--variant", "naive", "--no-reductions", "--counterexample", str(path))
    assert result.exit_code == 1, result.output
    assert "VIOLATION: misplaced, after 11 steps (the shortest)" in result.stdout
    assert f"Expected: {FAULTS['misplaced']}." in result.stdout
    assert len(json.loads(path.read_text())["steps"]) == 11
    pytest.importorskip("matplotlib")
    assert run("--variant", "naive", "--diagram", str(picture)).exit_code == 1
    assert "view 2" in picture.read_text()


def test_figures_as_json() -> None:
    result = run("--json")
    assert result.exit_code == 0
    (point,) = json.loads(result.stdout)["points"]
    assert point["order"] == "groups"
    assert point["holds"]
    assert point["complete"]
    assert (point["unique_states"], point["total_states"], point["max_depth"]) == (1315, 1812, 24)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fan-out", "2"], "--fan-out is not for groups"),
        (["--variant", "worse"], "variant is 'worse': expected one of naive, no-look"),
        (["--search", "walk"], "search is 'walk': expected one of auto, depth, breadth"),
        (["--processes", "7"], "processes is 7: expected 2 to 6"),
        (["--kills", "2"], "kills is 2: expected 0 to 1: each is one of the changes"),
    ],
)
def test_what_can_not_be_is_refused(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_an_order_has_no_views_to_change() -> None:
    result = run_command("check", "mfss", "--changes", "2")
    assert result.exit_code == 2
    assert "--changes is for groups" in result.stderr


def test_too_little_memory_and_too_little_time_are_told() -> None:
    assert "memory" in run_groups(changes=2, messages=2, memory=1 << 20).unexplored
    late = run_groups(changes=2, messages=2, memory=256 << 20, seconds=0)
    assert not late.complete
    assert "time" in late.unexplored
