# SPDX-License-Identifier: Apache-2.0
"""The code beside its model: what a search of the compiled core does is followed as steps of the multicast."""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from conftest import run_command
from mutants.followed import MUTANTS
from mutants.multicast import Mutant, mutated

from busq.lab.proof import MODELS, VIOLATIONS, Followed, NotASearch, follow, scenes_of
from busq.lab.proof.compiled import Compiled, State
from busq.lab.proof.models import multicast

# As in tests/c/explore/explore_steps.h; the order is what the stream itself gives.
NAMES = "search queue step begin propose clock publish skip state stamp look deliver resume notice reach hands"
ELEMENTS = {multicast.Msg: [(multicast.begun, 0)], multicast.Queue: [(multicast.clock, 0)]}
STAGING, SEALED, COMMITTED = 1, 2, 3

# Peer 0 sends message 1 to queues 1 and 2, whose clocks stand at 1 and 5; the second refuses the proposal 2.
BEGUN = """
    begin 0 0 1 0 0 6
    propose 0 0 1 2
    clock 0 1 1 2 8
    publish 0 1 8 0 1 0
    clock 0 2 5 5 8
    publish 0 2 8 0 1 0
"""
SEALED_AT_6 = f"""
    stamp 6
    state 0 0 1 0 {STAGING} 0 {SEALED}
"""
FINISHED = f"""
    clock 0 1 2 6 -1
    clock 0 2 5 6 -1
    stamp 6
    state 0 0 1 0 {SEALED} 0 {COMMITTED}
"""
FIRST_STEP = "step 0 0 46 9\n"

Search = Callable[[str], Path]


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """search(records) makes a program that writes them as a search does."""

    def make(records: str) -> Path:
        lines = ["search 3", "queue 0 1", "queue 1 1", "queue 2 5", *filter(str.strip, records.splitlines())]
        stream = b"".join(record(line) for line in lines)
        program = tmp_path / "search"
        program.write_text(
            f"#!{sys.executable}\nimport sys\n"
            "if sys.argv[1:] == ['--list']:\n    print('a scene (large)')\nelse:\n"
            f"    sys.stdout.buffer.write({('busq steps: ' + NAMES).encode()!r} + b'\\n' + {stream!r})\n"
        )
        program.chmod(0o755)
        return program

    return make


def record(line: str) -> bytes:
    name, *words = line.split()
    numbers = [NAMES.split().index(name), *map(int, words)]
    return struct.pack("<8q", *numbers, *[0] * (8 - len(numbers)))


def followed(program: Path) -> Followed:
    (scene,) = scenes_of(program)
    return follow(program, scene)


def refused(program: Path) -> str:
    refusal = followed(program).refusal
    assert refusal
    return refusal.reason


# ---- what is allowed ----


def test_a_message_that_is_sealed_synced_and_committed_is_delivered(search: Search) -> None:
    delivery = "look 1 1\n deliver 1 1 8 0 1\n step 1 1 46 4"
    result = followed(search(BEGUN + SEALED_AT_6 + FINISHED + FIRST_STEP + delivery))
    assert (result.refusal, result.edges) == (None, 2)
    once, twice = ("begin", "propose", "seal", "complete", "deliver"), ("take", "publish", "sync")
    assert result.steps == {**dict.fromkeys(once, 1), **dict.fromkeys(twice, 2)}


def test_a_search_that_goes_back_is_followed_from_where_it_goes_on(search: Search) -> None:
    """Two ends of one beginning: committed by the sender, and then the same once more."""
    end = SEALED_AT_6 + FINISHED + "step 1 0 46 5\n"
    assert followed(search(BEGUN + FIRST_STEP + end + end)).edges == 3
    assert "state 0 0 1" in refused(search(BEGUN + FIRST_STEP + end + end.replace("step 1", "step 2")))


def test_a_delivery_that_was_allowed_when_the_reader_looked_is_allowed(search: Search) -> None:
    """Message 2 of peer 2, sent alone, comes behind; that the look was before makes no difference to message 1."""
    behind = "begin 2 2 1 0 1 2\n clock 2 1 6 7 9\n publish 2 1 9 2 1 0\n step 1 2 46 3\n"
    delivery = "deliver 1 1 8 0 1\n step 2 1 46 1\n"
    result = followed(search(BEGUN + SEALED_AT_6 + FINISHED + "look 1 1\n" + FIRST_STEP + behind + delivery))
    assert (result.refusal, result.edges) == (None, 3)


def test_what_several_readers_do_is_counted_and_what_they_claim_has_to_be_committed(search: Search) -> None:
    alone = "begin 0 0 1 0 1 2\n clock 0 1 1 2 8\n"
    claim = "reach 1 1 8 1\n hands 1 2\n step 0 1 46 9\n"
    assert followed(search(alone + "publish 0 1 8 0 1 0\n" + claim)).outside == 2
    assert "nothing committed there" in refused(search(alone + claim))


# ---- what is not ----


def test_a_commit_before_every_clock_is_raised_is_refused(search: Search) -> None:
    early = FINISHED.replace("clock 0 2 5 6 -1", "")
    refusal = followed(search(BEGUN + SEALED_AT_6 + early + FIRST_STEP)).refusal
    assert refusal
    assert refusal.reason == "state 0 0 1 0 2 0 3: committed while the clock of queue 2 is 5"
    assert refusal.schedule == "0.9"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("stamp 6", "stamp 5", r"seal\(1, 5\) is not a step of the model here"),
        ("clock 0 2 5 5 8", "clock 0 2 5 2 8", "the model's clock comes to 5"),
        ("clock 0 2 5 5 8", "clock 0 2 4 4 8", "the model's clock stands at 5"),
        ("publish 0 2 8 0 1 0", "publish 0 2 8 0 1 1", "has taken that position in attempt 0"),
        ("publish 0 2 8 0 1 0", "publish 0 2 9 0 1 0", "is not a step of the model here"),
        ("publish 0 2 8 0 1 0", "skip 2 2 9", "the model has not taken that position"),
        ("publish 0 2 8 0 1 0", "skip 2 2 8", r"seal\(1, 6\) is not a step"),
        (f"{STAGING} 0 {SEALED}", f"{STAGING} 0 {COMMITTED}", r"commit\(1\) is not a step"),
        (f"{STAGING} 0 {SEALED}", f"{SEALED} 0 {STAGING}", "no state changes from phase 2 to 1"),
        (f"0 1 0 {STAGING}", f"0 1 1 {STAGING}", "the model is at attempt 0"),
    ],
)
def test_a_step_that_is_none_of_the_model_is_refused(search: Search, before: str, after: str, reason: str) -> None:
    text = BEGUN + SEALED_AT_6 + FINISHED + FIRST_STEP
    assert before in text
    assert re.search(reason, refused(search(text.replace(before, after))))


@pytest.mark.parametrize(
    ("records", "delivery"),
    [
        (BEGUN + SEALED_AT_6, "deliver 1 1 8 0 1"),  # not committed
        (BEGUN + SEALED_AT_6 + FINISHED, "deliver 1 1 9 0 1"),  # from a place where it does not stand
        (BEGUN + SEALED_AT_6 + FINISHED + "deliver 1 1 8 0 1\n", "deliver 1 1 8 0 1"),  # twice
        (BEGUN + SEALED_AT_6 + FINISHED + "deliver 1 1 8 0 1\n resume 1 1\n", "deliver 1 1 8 0 1"),
    ],
)
def test_a_delivery_that_is_not_allowed_is_refused(search: Search, records: str, delivery: str) -> None:
    assert "could not deliver that" in refused(search(f"{records}{delivery}\n{FIRST_STEP}"))


def test_a_program_that_is_no_search_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "other"
    program.write_text("#!/bin/sh\necho something else\n")
    with pytest.raises(NotASearch, match="can't be run"):
        scenes_of(program)
    program.chmod(0o755)
    with pytest.raises(NotASearch, match="does not write the steps of 'a scene', but 'something else"):
        follow(program, "a scene")
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(NotASearch, match="ended with 3"):
        scenes_of(program)


# ---- the third reading of the model ----


@pytest.mark.parametrize("name", [mutant.name for mutant in MODELS["multicast"].mutants])
def test_compiled_the_model_and_its_mutants_allow_the_same(name: str) -> None:
    """The execution that breaks a property of the mutant is one of the compiled mutant, and none of the model."""
    violation = VIOLATIONS["multicast"][name]

    def run(compiled: Compiled) -> State | None:
        state: State | None = compiled.begin(violation.scene)
        for q in range(violation.scene.sizes[multicast.Queue]):
            state = compiled.put(state or (), multicast.clock, (q,), 0)
        for step, *arguments in violation.steps:
            state = state and compiled.step(state, step, *arguments)
        return state

    system, elements = MODELS["multicast"], {**ELEMENTS, multicast.Pos: [(multicast.slot, 1)]}
    assert run(Compiled(system.mutated(system.mutant(name)), elements)) is not None
    assert run(Compiled(system, elements)) is None


# ---- the command, and the core ----


run = partial(run_command, "prove")


def test_the_command_shows_what_was_accepted_and_the_first_that_is_not(search: Search) -> None:
    good = run("--code", str(search(BEGUN + SEALED_AT_6 + FINISHED + FIRST_STEP)))
    assert good.exit_code == 0
    assert "1 scenes: 1 steps from pause to pause are steps of the model, 0 are not" in good.stdout
    program = search(BEGUN + SEALED_AT_6.replace("6", "5") + FIRST_STEP)
    bad = run("--code", str(program))
    assert bad.exit_code == 1
    assert "seal(1, 5) is not a step of the model here" in bad.stdout
    assert '--follow "a scene" 0.9' in bad.stdout.replace("\n", "")
    (point,) = json.loads(run("--code", str(program), "--json").stdout)["points"]
    assert point["refusal"]["schedule"] == "0.9"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--scene", "two"), "--scene goes with --code"),
        (("multicast", "--code", sys.executable), "--code goes with --scene and --states alone"),
        (("--code", sys.executable, "--mutants"), "--code goes with --scene and --states alone"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("broken", MUTANTS, ids=lambda broken: broken.name)
def test_a_mutant_of_the_core_changes_what_stands_there_once(broken: Mutant) -> None:
    assert mutated(broken)


@pytest.mark.long
def test_every_step_of_the_core_is_one_of_the_model(c_build: Callable[..., Path]) -> None:
    """All scenes, as far as 20,000 states go in each; .ci/deep goes to two and a half million."""
    program = c_build("test_explore_steps") / "test_explore_steps"
    results = [follow(program, scene, states=20_000) for scene in scenes_of(program)]
    assert [one.refusal for one in results if one.refusal] == []
    assert sum(one.edges for one in results) > 1_000_000
    assert all(one.edges for one in results)
    never = {action.name for action in MODELS["multicast"].actions} - {name for one in results for name in one.steps}
    within_a_delivery = {"pass_by", "to_heap", "deliver_held", "deliver_held_at_tail"}
    assert never <= {"raise", *within_a_delivery}
