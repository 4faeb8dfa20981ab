# SPDX-License-Identifier: Apache-2.0
"""Proofs: all models hold, no rule of one can be broken without notice, and no proof is empty."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_command
from shortest import steps_to_break

from busq.lab.proof import (
    MODELS,
    VIOLATIONS,
    Action,
    Counterexample,
    Execution,
    Impossible,
    Mutant,
    NoSolver,
    Scene,
    System,
    Violation,
    impossible_actions,
    prove,
    solver,
)
from busq.lab.proof.logic import FALSE, TRUE, Sort, all_of, below, exists, forall, relation, same, set_, variables
from busq.lab.proof.models import multicast
from busq.lab.proof.picture import execution_of
from busq.orders import ORDERS

needs_z3 = pytest.mark.skipif(importlib.util.find_spec("z3") is None, reason="needs z3: pip install 'busq[proof]'")
EVERY_MUTANT = [
    pytest.param(system, mutant, id=f"{system.name}-{mutant.name}")
    for system in MODELS.values()
    for mutant in system.mutants
]
SMALL = {"patience", "token-rest", "lamport-release", *ORDERS}  # so are their scenes: seconds for a search through all
SMALL_MUTANTS = [
    pytest.param(system, mutant, id=f"{system.name}-{mutant.name}")
    for system in MODELS.values()
    if system.name in SMALL
    for mutant in system.mutants
]
EVERY_MODEL = [pytest.param(system, id=name) for name, system in MODELS.items()]
FOLLOWS = "what follows an undelivered message is of its sender, eager, to another process, and waits for it"
FOUND = "a process that waits will be found, or its WANT is ahead of the token"
# The claim that each mutant breaks at the step that it changes: the reason for which the rule is there.
REASONS = {
    "accept-equal": ("take", "an accepted proposal is above the clock that it met"),
    "two-places": ("take", "there is one place per queue and attempt"),
    "commit-first": ("complete", "what is committed has raised all its clocks"),
    "seal-at-max": ("seal", "a final time is above the clocks that it met"),
    "stale-commit": ("commit", "what is final is of the current attempt"),
    "blind-put-off": ("put_off", "what is delivered is committed, and addressed here"),
    "pass-open": ("deliver", "the reader goes along the ring"),
    "hole-passed": ("deliver", "the reader goes along the ring"),
    "tie-per-queue": ("deliver", "the heap is above what is delivered"),
    "late-in-place": ("deliver", "what is final and still to come is above what is delivered"),
    "heap-no-tail": ("deliver_held_at_tail", "what is final and still to come is above what is delivered"),
    "blind-resume": ("deliver", "the history is in the order of keys"),
    "foreign-queue": ("take", "positions are taken for destinations"),
    "sure-of-place": ("take", "where the sender takes its message to stand, it stands"),
    "commit-early": ("commit", "what is final is staged everywhere"),
    "unicast-put-off": ("put_off", "no unicast is put off"),
    "clock-set": ("raise", "no position is above its clock"),
    "seal-unsynced": ("sync", "a synced clock has reached the seal"),
    "blind-skip": ("skip", "a skipped position is not published"),
    "pass-hole": ("pass_by", "what is passed was published or skipped"),
    "late-lost": ("pass_by", "what is passed and alive is in the heap or delivered"),
    "stand-still": ("deliver", "what is delivered was passed, or by a predecessor"),
    # cykas
    "telling": ("send", FOLLOWS),
    "impatient": ("send", "one message to a process is open"),
    "not-silent": ("send", FOLLOWS),
    "early-yct": ("send_yct", "a YCT is of what was sent eagerly, and waits for no process"),
    "all-normal": ("send", FOLLOWS),
    # bus1
    "past-block": ("deliver", "blocks are behind what is delivered"),
    "past-lower": ("deliver", "what is still to come is above what is delivered"),
    "block-below": ("receive_block", "blocks are behind what is delivered"),
    "without-clock": ("choose", "what is chosen is blocked everywhere"),
    "below-clock": ("choose", "a block is below its message"),
    "unsynced": ("commit", "all clocks have reached what is committed"),
    "next-too-early": ("start", "a cause is committed, an effect is begun"),
    "unicast-in-place": ("receive_unicast", "what is still to come is above what is delivered"),
    "unicast-unanswered": ("end_unicast", "what is over was committed, and chosen"),
    # fifo
    "not-in-turn": ("deliver", "a receiver has passed all numbers up to its last"),
    "same-number": ("send", "no two messages to a process have one number"),
    "late-copy": ("arrive", "what has arrived and was passed is delivered"),
    "copy-delivered": ("deliver", "the history is in the order of numbers"),
    "skip-any": ("skip", "what has arrived and was passed is delivered"),
    # fifo-ack
    "no-wait-there": ("send", "one message of a process to another is open"),
    "any-there": ("send", "what is ahead to a receiver was delivered before"),
    "early-ack-there": ("receive_ack", "what is acknowledged was delivered"),
    # mfss
    "no-wait": ("send", "one message of a process is open"),
    "wait-per-receiver": ("send", "one message of a process is open"),
    "any-of-buffer": ("send", "what is ahead in the buffer was sent before"),
    "early-ack": ("receive_ack", "what is acknowledged was delivered"),
    # sync
    "permit-active": ("permit", "a process is passive for what it has permitted"),
    "permit-passive": ("permit", "a process is passive for what it has sent down"),
    "unpermitted": ("send_up", "a process is passive for what comes from below"),
    "up-while-passive": ("send_up", "what comes from below is later than what its receiver is aware of"),
    "down-stays-active": ("send_down", "a process is passive for what it has sent down"),
    "down-while-passive": ("send_down", "a process is passive for what it has permitted"),
    "unexpected": ("deliver", "what leads to another had its instant earlier"),
    "two-at-once": ("send_down", "what a process has sent is over when it sends again"),
    "ack-ahead": ("receive_ack", "what is over was delivered"),
    # patience
    "any-attempt": ("put_off", "what was put off was begun"),
    "not-later": ("put_off", "the sender's attempt is the current one, or earlier"),
    "unasked": ("restage", "nothing happens to an attempt again"),
    # share
    "blind-claim": ("reach", "a message is claimed by one reader"),
    "out-of-turn": ("look", "a reader has gone past what comes before what it aims at"),
    "not-shown": ("look", "a slot shows what its reader reaches for"),
    "done-first": ("finish", "what is not released has a place"),
    "hands-apart": ("free_reach", "what is free stands nowhere else"),
    "hands-first": ("free_hand", "what is free stands nowhere else"),
    "released-again": ("free_reach", "what is free is not taken"),
    "bury-alive": ("free_reach", "a reader has reached for one message"),
    "came-unmarked": ("give_back", "no reader has gone past what no reader has reached for"),
    "untold": ("bury", "what claims a message has joined, and is not buried"),
    "unsought": ("find_nothing", "nothing was overlooked"),
    "head-over-claims": ("advance", "what is behind the head is done with"),
    "head-left": ("end", "the head stood before what was not done with"),
    # groups
    "naive": ("deliver", "what a member has delivered stays before the change"),
    "no-look": ("find_idle", "what counts stays before the change"),
    "no-put-off": ("find_open", "what counts stays before the change"),
    "by-number": ("find_behind", "what is missed comes behind a change"),
    "torn-look": ("look", "a message goes to the members of its view, and to those that are named"),
    "blind-named": ("deliver_named", "what another has delivered counts"),
    "no-claim": ("enter", "one change ends a view"),
    "break-sealed": ("undo", "an item is begun, then sealed, then committed"),
    "new-only": ("leave", "a change goes to all members that live, old and new"),
    "old-only": ("enter", "a change goes to all members that live, old and new"),
    "forget-dead": ("seal", "what counts stays before the change"),
    "rise-once": ("find_open", "what counts stays before the change"),
    "below-last": ("seal", "changes are in the order of their views"),
    "no-sync": ("commit", "the clocks have reached what is committed"),
    "mourn-living": ("mourn", "deaths are of the dead, whose last messages are committed"),
    "no-settle": ("mourn", "deaths are of the dead, whose last messages are committed"),
    # records
    "untagged-put-off": ("put_off", "swaps change what they are for"),
    "untagged-complete": ("complete", "swaps change what they are for"),
    "untagged-undo": ("undo", "swaps change what they are for"),
    "not-free-first": ("take", "what is in use and held are one"),
    "marks-left": ("show", "what is shown was filled"),
    "not-still": ("hold", "what a reader has is there, and not released"),
    "two-at-a-queue": ("release", "what was found unmarked is not released since"),
    "withdraw-final": ("withdraw", "what is final stays until it is given back"),
    "some-released": ("collect", "what is final and given back was released by all"),
    "collect-in-hand": ("collect", "a sender has what it is sending"),
    "unsent": ("see_done", "what was found done is done"),
    "word-last": ("see_done", "what was found done was read after its word"),
    "no-generation": ("give_back", "a sender has what it is sending"),
    # burial
    "one-look": ("enter", "in a grave no peer lives"),
    "no-lock": ("lock", "a lock is held by one"),
    "unclosed": ("bury", "the queue of what is gone was closed"),
    "hand-left": ("bury", "what is not over is in hand, of a peer that is not gone"),
    "unnamed": ("begin", "what is not over is in hand, of a peer that is not gone"),
    "undo-sealed": ("undo", "what is fixed is sealed or committed"),
    "bury-again": ("bury", "no peer is buried again"),
    "any-incarnation": ("place", "what stands in a queue is addressed"),
    "in-use": ("hold_new", "what is not shown yet came to a slot that was not in use"),
    "queue-left": ("hold_new", "the queues of former peers are empty"),
    "memory-left": ("hold_new", "the messages of former peers are over"),
    "queue-open": ("hold_new", "a queue is closed where another peer comes"),
    "drop-alive": ("discard", "nothing is dropped from a living queue"),
    "drop-half": ("hold_old", "what is dropped is dropped whole"),
    # bridge
    "no-fence": ("arrive", "a batch is stored once"),
    "no-marker": ("add", "a request of a batch is in no other that is stored"),
    "marker-unread": ("lead", "what a bridge that leads has waiting is not in the stream"),
    "cursor-apart": ("resend", "the cursor shows what was delivered"),
    "inbox-late": ("resend", "a bridge has found what is in the cursor"),
    "entry-first": ("drain", "a request that is done and not acknowledged is in the cursor"),
    "settle-first": ("settle", "a request that is done and not acknowledged is in the cursor"),
    "two-bridges": ("begin", "a machine has one bridge"),
    "out-of-order": ("resend", "what is delivered comes after all that is before it"),
    "withdraw-early": ("withdraw", "what was withdrawn is not in the stream, and never will be"),
    "full-is-none": ("give_up", "what a bridge that leads has waiting is not in the stream"),
    "reply-stored": ("reply", "what was replied to was delivered"),
    # skeen
    "past-open": ("deliver", "what is open is above what is delivered"),
    "final-any": ("decide", "the final time is no lower than a proposal"),
    "no-pass": ("receive_final", "a process has passed what is settled there"),
    "equal-proposal": ("receive_data", "what is open is above what is delivered"),
    "tie-per-process": ("deliver", "what is decided is above what is delivered"),
    # sequencer
    "requests-overtake": ("multicast", "requests are multicast in their order"),
    "data-overtakes": ("deliver", "what is first is delivered first"),
    "own-at-once": ("deliver", "what is delivered was multicast, and is addressed here"),
    # lamport
    "unheard": ("deliver", "what is still to come is above what is delivered"),
    "acks-overtake": ("hear", "what was sent before it was heard has arrived"),
    "same-time": ("submit", "what is still to come is above what is delivered"),
    "no-raise": ("receive_data", "a clock has reached what is queued"),
    # lamport-release
    "unacknowledged": ("release", "what is released was queued by all"),
    "ack-overtakes": ("receive_ack", "what was sent before an ACK has arrived"),
    "release-any": ("release", "what is below something released was released"),
    "mark-alone": ("deliver", "what is still to come is above what is delivered"),
    "unmarked": ("deliver", "what is delivered was released"),
    "release-same-time": ("submit", "what is below something released was released"),
    "release-no-raise": ("receive_data", "an ACK shows a clock that had reached its message"),
    # causal-matrix
    "at-once": ("deliver", "the past of what was delivered was delivered"),
    "fifo-only": ("deliver", "the past of what was delivered was delivered"),
    "unmerged": ("deliver", "a matrix counts what its process is aware of"),
    "self-uncounted": ("send", "a matrix counts what its process is aware of"),
    # token-rest
    "no-note": ("leave_note", FOUND),
    "past-parked": ("leave_note", FOUND),
    "need-uncounted": ("visit", FOUND),
    "early-park": ("park", "a parked token has found all without need"),
    # token
    "without-token": ("give_number", "no two messages have one number"),
    "two-tokens": ("pass_on", "the token is in one place"),
    "uncounted": ("give_number", "the process with the token knows what was counted"),
    "gaps": ("deliver", "a process has had all numbers up to its last"),
}

Thing = Sort("Thing", is_ordered=True)
x, y = variables("x y", Thing)
(q,), (m, n) = variables("q", multicast.Queue), variables("m n", multicast.Msg)
had, first = relation("had", Thing), relation("first", Thing)


def small_system(**changes: object) -> System:
    """A queue that gives each thing once, the least first, if everything is there from the beginning."""
    least = forall(y, below(y, x) >> had(y))
    system = System(
        name="least-first",
        meaning="a sorted list",
        sorts=(Thing,),
        symbols=(had, first),
        axioms={},
        actions=(Action("give", (x,), ~had(x) & least, (set_(had, x),)),),
        invariants={"all below what was had was had": forall(x, y, (had(x) & below(y, x)) >> had(y))},
        properties={"no gap": ~exists(x, y, all_of(below(y, x), had(x), ~had(y)))},
        mutants=(Mutant("any", "any thing may be given", (Action("give", (x,), ~had(x), (set_(had, x),)),)),),
    )
    return dataclasses.replace(system, **changes)  # type: ignore[arg-type]


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "proofs.md"


def reasons_of_the_page() -> dict[str, str]:
    """The invariants of "Why it is right", and what stands beside each."""
    section = PAGE.read_text().partition("\n## Why it is right\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    return {name.strip(): reason.strip() for name, _, reason in rows}


def invariants_of_the_page() -> dict[str, list[str]]:
    """The same with the mutants that stand there."""
    return {name: re.findall("`(.*?)`", reason) for name, reason in reasons_of_the_page().items()}


def without(name: str, step: str = "") -> list[tuple[str, str]]:
    """What fails of the multicast without one of its invariants: at one step, at all, or, "properties", of these."""
    system = MODELS["multicast"]
    actions = tuple(action for action in system.actions if not step or action.name == step.replace(" ", "_"))
    rest = {claim: formula for claim, formula in system.invariants.items() if claim != name}
    result = prove(dataclasses.replace(system, invariants=rest, actions=actions), explain=False)
    return [(answer.step.replace("_", " "), answer.claim) for answer in result.failures]


# ---- the models ----


@pytest.mark.skipif(not PAGE.exists(), reason="needs the documentation, which is not part of an installation")
def test_the_page_has_every_invariant_of_the_multicast() -> None:
    assert set(invariants_of_the_page()) == set(MODELS["multicast"].invariants)


UNBROKEN = (
    {name: reason for name, reason in reasons_of_the_page().items() if "`" not in reason} if PAGE.exists() else {}
)


@needs_z3
@pytest.mark.parametrize("name", UNBROKEN)
def test_an_invariant_that_no_mutant_breaks_is_needed_for_what_the_page_says(name: str) -> None:
    found = re.fullmatch(r"none; (?:\*(.+)\*|a property) needs it: (.+)", UNBROKEN[name])
    if found:
        step = found[1] or "properties"
        assert (found[1] or "the properties", found[2]) in without(name, step)
    else:
        assert (UNBROKEN[name], without(name)) == ("none; nothing rests on it", [])


@needs_z3
@pytest.mark.parametrize("system", EVERY_MODEL)
def test_a_model_is_proven(system: System) -> None:
    result = prove(system)
    assert [(answer.step, answer.claim, answer.verdict) for answer in result.failures] == []
    claims = len(system.invariants) * (len(system.actions) + 1) + len(system.properties)
    assert len(result.answers) == claims, "each invariant at the beginning and at each step, and each property"


@needs_z3
def test_a_search_that_gets_lost_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "_FIRST_STEPS", 1000)
    assert prove(MODELS["lamport"]).failures == []


@needs_z3
@pytest.mark.parametrize(("system", "mutant"), EVERY_MUTANT)
def test_a_rule_that_is_broken_breaks_what_it_is_there_for(system: System, mutant: Mutant) -> None:
    result = prove(system, mutant=mutant, explain=False)
    broken = {(answer.step, answer.claim) for answer in result.answers if answer.verdict == "broken"}
    assert REASONS[mutant.name] in broken
    if system.name == "multicast" and PAGE.exists():
        assert {claim for _, claim in broken} == {
            claim for claim, names in invariants_of_the_page().items() if mutant.name in names
        }


@needs_z3
@pytest.mark.parametrize("name", ["skeen", "cykas"])
def test_another_solver_agrees(name: str) -> None:
    """Of the multicast it takes half a minute: `busq prove --solver cvc5` in .ci/run."""
    pytest.importorskip("cvc5", reason="needs cvc5: pip install cvc5")
    system = MODELS[name]
    assert prove(system, solver="cvc5").is_proven
    result = prove(system, mutant=system.mutants[0], solver="cvc5", seconds=2, explain=False)
    assert REASONS[system.mutants[0].name] in {(answer.step, answer.claim) for answer in result.failures}


@needs_z3
def test_without_cvc5_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    with pytest.raises(NoSolver, match="pip install cvc5"):
        prove(small_system(), solver="cvc5")


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(ValueError, match="solver is 'none'; there are z3, cvc5"):
        prove(small_system(), solver="none")


@needs_z3
@pytest.mark.parametrize("system", EVERY_MODEL)
def test_every_action_can_happen_where_the_invariants_hold(system: System) -> None:
    assert impossible_actions(system) == []


@pytest.mark.parametrize("system", EVERY_MODEL)
def test_every_symbol_is_listed_and_every_mutant_changes_something(system: System) -> None:
    listed = set(system.symbols)
    for action in system.actions:
        assert {update.symbol for update in action.updates} <= listed
        assert not [update.symbol.name for update in action.updates if update.symbol.is_fixed]
        assert len({update.symbol for update in action.updates}) == len(action.updates), action.name
    names = {
        action.name: str(action.guard) + str([str(one.value) for one in action.updates]) for action in system.actions
    }
    for mutant in system.mutants:
        changed = {one.name: str(one.guard) + str([str(two.value) for two in one.updates]) for one in mutant.actions}
        assert all(names[name] != text for name, text in changed.items()), mutant.name


def test_every_mutant_has_a_reason() -> None:
    assert {mutant.name for system in MODELS.values() for mutant in system.mutants} == set(REASONS)


# ---- executions ----


@pytest.mark.parametrize(("system", "mutant"), EVERY_MUTANT)
def test_a_mutant_has_an_execution_that_breaks_a_property(system: System, mutant: Mutant) -> None:
    """The other reading of the model, which needs no solver: what the mutant loses is lost for users, too."""
    violation = VIOLATIONS[system.name][mutant.name]
    assert violation.claim in violation.run(system.mutated(mutant))
    with pytest.raises(Impossible):
        violation.run(system)


@pytest.mark.parametrize(("system", "mutant"), SMALL_MUTANTS)
def test_the_execution_that_breaks_a_property_is_the_shortest(system: System, mutant: Mutant) -> None:
    """In its scene."""
    violation = VIOLATIONS[system.name][mutant.name]
    assert steps_to_break(system.mutated(mutant), violation.scene, violation.claim) == len(violation.steps)


def test_the_code_and_its_model_name_each_other() -> None:
    named = {}
    for source in sorted((ROOT / "csrc").rglob("*.[ch]")):
        for line in source.read_text().splitlines():
            if "Proven without a bound: " in line:
                named[source.name] = re.findall(r"\w+\.py", line)
    assert len(named) == 18
    for source, models in named.items():
        for model in models:
            text = (Path(multicast.__file__).parent / model).read_text()
            assert source in text or source.removesuffix(".h") + ".c" in text, f"{source} names {model}"


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MODELS)
def test_no_step_of_a_violation_can_be_left_out(name: str, count: int) -> None:
    """Nor two, where a search through all executions of a scene would take too long, too."""
    system = MODELS[name]
    for mutant in system.mutants:
        broken, violation = system.mutated(mutant), VIOLATIONS[name][mutant.name]
        for kept in itertools.combinations(violation.steps, len(violation.steps) - count):
            assert not breaks(broken, violation, kept), f"{mutant.name}: {kept}"


def breaks(system: System, violation: Violation, steps: Iterable[tuple[Any, ...]]) -> bool:
    execution = Execution(system, violation.scene)
    try:
        for name, *arguments in steps:
            execution.step(name, *arguments)
    except Impossible:
        return False
    return bool(execution.broken({violation.claim: system.properties[violation.claim]}))


@pytest.mark.parametrize("name", ["mfss", "sync", "skeen", "token-rest"])
def test_the_unbroken_model_has_no_such_execution(name: str) -> None:
    violation = VIOLATIONS[name][MODELS[name].mutants[0].name]
    assert steps_to_break(MODELS[name], violation.scene, violation.claim) is None


def test_a_late_message_and_its_neighbour_are_delivered_in_one_order() -> None:
    """The unbroken model on two queues, with every invariant and property in every state on the way."""
    system = MODELS["multicast"]
    execution = Execution(system, multicast.scene([{0, 1}, {0, 1}]))
    steps = (
        "begin 0 0; begin 1 0; propose 0 1; propose 1 1; take 0 0 0; take 1 0 1; take 1 1 2; take 0 1 3; publish 0 0 0;"
        "publish 1 0 1; publish 1 1 2; publish 0 1 3; seal 0 2; sync 0 0; sync 0 1; complete 0; seal 1 3; sync 1 0;"
        "sync 1 1; complete 1; to_heap 0 0 0; to_heap 0 1 1; deliver_held_at_tail 0 0 0; deliver_held_at_tail 0 1 1;"
        "to_heap 1 2 1; to_heap 1 3 0; deliver_held_at_tail 1 3 0; deliver_held_at_tail 1 2 1"
    )
    for name, *arguments in map(str.split, steps.split(";")):
        execution.step(name, *map(int, arguments))
        assert execution.broken({**system.invariants, **system.properties}) == []
    both = forall(q, m, n, below(m, n) >> multicast.before(q, m, n))
    assert execution.broken({"both queues deliver 0, and then 1": both}) == []


def test_a_step_that_is_not_possible_changes_nothing() -> None:
    system = small_system()
    execution = Execution(system, Scene({Thing: 2}, {}))
    with pytest.raises(Impossible, match=r"give\(x=1\) is not possible here"):
        execution.step("give", 1)
    execution.step("give", 0)
    execution.step("give", 1)
    assert execution.broken({"all were had": forall(x, had(x))}) == []
    with pytest.raises(ValueError, match="there is no x 2"):
        execution.step("give", 2)


def test_a_scene_that_breaks_an_axiom_is_refused() -> None:
    with pytest.raises(ValueError, match="a unicast has one destination"):
        Execution(MODELS["multicast"], multicast.scene([{0, 1}], unicasts={0}))


# ---- what a proof is ----


@needs_z3
def test_a_small_system_is_proven_and_its_mutant_is_not() -> None:
    system = small_system()
    assert prove(system).is_proven
    result = prove(system, mutant=system.mutant("any"))
    (answer,) = result.failures
    example = answer.counterexample
    assert example is not None
    assert (example.step, example.arguments, example.state["had"]) == ("give", {"x": "thing1"}, [])
    assert example.transcript().startswith("give(x = thing1), in the state\n  had: nothing\n")


@needs_z3
def test_a_claim_that_is_false_in_the_beginning_is_broken_there() -> None:
    system = small_system(invariants={"something was had": exists(x, had(x))}, properties={})
    assert [answer.step for answer in prove(system).failures] == ["the beginning"]


@needs_z3
def test_a_property_that_does_not_follow_is_broken() -> None:
    system = small_system(properties={"at most one": forall(x, y, (had(x) & had(y)) >> same(x, y))})
    assert [(answer.step, answer.claim) for answer in prove(system).failures] == [("the properties", "at most one")]


@needs_z3
def test_an_action_that_can_never_happen_is_named() -> None:
    never = Action("never", (x,), had(x) & ~had(x), ())
    assert impossible_actions(small_system(actions=(*small_system().actions, never))) == ["never"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e7])
def test_a_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"seconds is .*; a question takes"):
        prove(small_system(), seconds=seconds)


def drawn(model: str, step: str, arguments: str, **state: str) -> list[tuple[str, str, str]]:
    """The events of the picture of a counterexample, of whose state only what holds somewhere is given."""
    everything = {symbol.name: list[str]() for symbol in MODELS[model].symbols}
    everything.update(
        {name: [f"({', '.join(place.split())})" for place in at.split(";")] for name, at in state.items()}
    )
    example = Counterexample(step, dict(one.split("=") for one in arguments.split()), everything)
    picture = execution_of(MODELS[model], example)
    kept = [event for event in picture.events if event.kind in ("send", "deliver")]
    return [(picture.processes[event.process], event.kind, picture.label(event.message)) for event in kept]


def test_a_counterexample_is_drawn_with_the_delivery_that_is_its_step() -> None:
    queues = {"dest": "m0 q0; m1 q0; m2 q0; m2 q1", "begun": "m0; m1; m2"}
    history = {"delivered": "q0 m0; q0 m1", "before": "q0 m1 m0"}
    events = drawn("multicast", "deliver_held", "q=q0 p0=p0 m=m2 p=p1 m3=m0", **queues, **history)
    assert [event for event in events if event[0] == "q0"] == [
        ("q0", "deliver", "m1"),
        ("q0", "deliver", "m0"),
        ("q0", "deliver", "m2"),
    ]
    assert ("sender of m2", "send", "m2") in events
    assert not [event for event in events if event[0] == "q1"]


def test_what_a_sender_had_delivered_is_drawn_before_its_send() -> None:
    state = {"source": "m0 a; m1 b", "target": "m0 b; m1 a", "sent": "m0; m1", "delivered": "m0", "past": "m0 m1"}
    assert drawn("cykas", "deliver", "m=m1", **state) == [
        ("a", "send", "m0"),
        ("b", "deliver", "m0"),
        ("b", "send", "m1"),
        ("a", "deliver", "m1"),
    ]
    between = {"sender": "m0 a; m1 b", "dest": "m0 b; m1 a", "sent": "m0; m1", "delivered": "b m0"}
    assert drawn("skeen", "decide", "m=m1 p=b t=t0", **between)[0] == ("a", "send", "m0")
    assert drawn("skeen", "decide", "m=m1 p=b t=t0") == []


@needs_z3
def test_the_command_draws_a_counterexample(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    path = tmp_path / "step.svg"
    result = run_command("prove", "skeen", "--mutant", "past-open", "--diagram", str(path))
    assert (result.exit_code, f"wrote {path}" in result.stderr) == (1, True)
    assert "proc0" in path.read_text()


def test_a_diagram_is_of_a_mutant(tmp_path: Path) -> None:
    result = run_command("prove", "multicast", "--diagram", str(tmp_path / "step.svg"))
    assert result.exit_code == 2
    assert "--diagram goes with --mutant" in result.stderr


def test_without_z3_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(NoSolver, match=r"pip install 'busq\[proof\]'"):
        prove(small_system())
    result = run_command("prove")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pip install 'busq[proof]'" in result.stderr


# ---- the language ----


def test_terms_of_other_sorts_are_refused() -> None:
    (other,) = variables("other", Sort("Other"))
    with pytest.raises(TypeError, match=r"had takes \(Thing\), not \(Other\)"):
        had(other)
    with pytest.raises(TypeError, match="x and other are of different sorts: Thing, Other"):
        same(x, other)


def test_a_formula_is_not_taken_for_true() -> None:
    with pytest.raises(TypeError, match=r"had\(x\) is a formula"):
        assert had(x)
    assert all_of() is TRUE
    assert str(had(x) & FALSE) == "(had(x) and false)"


def test_a_mutant_is_found_by_its_name() -> None:
    with pytest.raises(LookupError, match="least-first has no mutant 'other': any"):
        small_system().mutant("other")
    with pytest.raises(LookupError, match="least-first has no action take"):
        small_system().mutated(Mutant("other", "", (Action("take", (), TRUE, ()),)))


# ---- busq prove ----


def test_the_list_needs_no_solver() -> None:
    result = run_command("prove", "--list", "--json")
    assert result.exit_code == 0
    (multicast, *_) = json.loads(result.stdout)["models"]
    assert multicast["name"] == "multicast"
    assert "seal-at-max" in multicast["mutants"]
    assert "seal-at-max" in run_command("prove", "--list").stdout


@needs_z3
def test_a_mutant_is_shown_with_what_it_breaks() -> None:
    result = run_command("prove", "multicast", "--mutant", "heap-no-tail")
    assert result.exit_code == 1
    assert "deliver_held_at_tail: what is final and still to come is above what is delivered: broken" in result.stdout
    assert "deliver_held_at_tail(q = queue0, p0 = pos" in result.stdout
    assert " 14 complete(m=0)\n    breaks no gap: " in result.stdout
    facts = json.loads(run_command("prove", "multicast", "--mutant", "heap-no-tail", "--json").stdout)
    assert facts["ok"] is False
    (point,) = facts["points"]
    assert (point["model"], point["proven"]) == ("multicast:heap-no-tail", False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "'nothing' is not"),
        (["multicast", "--mutant", "other"], "multicast has no mutant 'other'"),
        (["--mutant", "no-pass"], "--mutant needs a MODEL"),
        (["--mutants", "--list"], "exclude each other"),
        (["--seconds", "0"], "0"),
    ],
)
def test_what_can_not_be_asked_is_refused(arguments: list[str], words: str) -> None:
    result = run_command("prove", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
