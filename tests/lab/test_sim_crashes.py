# SPDX-License-Identifier: Apache-2.0
"""Processes that die in simulations: what orders keep then is kept, and what they do not keep is found broken."""

from __future__ import annotations

import itertools
import random
from array import array

import pytest
from conftest import run_command
from random_simulations import faults, traffic

from busq import sim
from busq.lab import crashes
from busq.lab.workload import Schedule
from busq.orders import ORDERS, parse

TAKEN = ("lost", "agreement", "uniform", "stuck")
GO_ON = tuple(f"{name}:on_crash=go-on" for name in ORDERS if ORDERS[name].crashes_go_on)
WITHOUT = tuple(name for name in GO_ON if ORDERS[name.split(":")[0]].crashes_go_on < {*TAKEN})  # agreement
USABLE = tuple(name for name in ORDERS if not ORDERS[name].laboratory)


def config(order: str, seed: int) -> sim.Config:
    """A few processes of which any but one may die, a few messages, and a network with faults."""
    chance = random.Random(seed)
    n = chance.randint(2, 6)
    return sim.Config(
        order=order,
        processes=n,
        **traffic(chance, n),
        job_share=chance.choice((0, 0.3)),
        job_mean_s=0.01,
        job_blocks_all=chance.random() < 0.3,
        crashes=chance.randint(1, n - 1),
        notice_s=chance.choice((0.0, 0.01, 0.2)),
        seed=seed,
        faults=faults(chance),
        judge=True,
    )


def broken(order: str, seed: int) -> set[str]:
    """What a run breaks of what deaths may take, after all that the order claims was found kept."""
    result = sim.run(config(order, seed))
    found = {name for name, verdict in result.verdicts.items() if not verdict.ok}
    assert result.ok, f"config({order!r}, {seed}): {sorted(found & result.config.claims)} broken"
    assert not found & result.config.claims
    return found & {*TAKEN}


@pytest.mark.parametrize("n_seeds", [20, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("order", GO_ON)
def test_what_goes_on_keeps_its_claims_whoever_dies(order: str, n_seeds: int) -> None:
    not_kept = {*TAKEN} - ORDERS[order.split(":")[0]].crashes_go_on
    for seed in range(n_seeds):
        assert broken(order, seed) <= not_kept


@pytest.mark.parametrize("order", [*USABLE, *WITHOUT])
def test_what_an_order_does_not_claim_breaks_and_the_rest_does_not(order: str) -> None:
    """Orders without the rules of on_crash=go-on are the mutants."""
    kind, options = parse(order)
    missing = {*TAKEN} - kind.under_crashes(options)
    for seed in itertools.count():
        if not missing and seed >= 20:
            break
        missing -= broken(order, seed)
        assert seed < 20_000, f"{order} did not break {missing}"


def play(order: str, *crashing: sim.Crash, **options: object) -> sim.Result:
    settings = {"processes": 3, "messages_per_process": 1, "workload": "ring", "fan_out": 2} | options
    return sim.run(sim.Config(order=order, crashes=crashing, judge=True, record=True, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("effects", range(1, 9))
def test_a_process_dies_behind_any_of_its_effects(effects: int) -> None:
    result = play("none", sim.Crash(process=0, effects=effects))
    assert result.execution is not None
    done = [e for e in result.execution.events if e.process == 0 and e.kind in ("sent", "send", "deliver")]
    assert len(done) == min(effects, 5)  # one sent, two packets, two deliveries
    assert list(result.deaths) == ([0] if effects <= 5 else [])
    kinds = [event.kind for event in result.execution.events if event.process == 0]
    assert kinds.count("die") == len(result.deaths)
    assert "die" not in kinds[:-1]


def test_jobs_of_the_dead_end_with_them() -> None:
    options = {"messages_per_process": 3, "interval_s": 0.0, "job_share": 1, "job_mean_s": 0.03}
    result = play("none", sim.Crash(process=0, at_s=0.05), **options)
    assert result.execution is not None
    kinds = [event.kind for event in result.execution.events if event.process == 0]
    assert kinds[-1] == "die"
    assert kinds.count("deliver") > kinds.count("job") == kinds.count("rest") > 0
    begun = [event.time_s for event in result.execution.events if event.kind == "job"]
    assert result.jobs == len(begun)
    assert result.job_start_mean_s == pytest.approx(sum(begun) / len(begun))


@pytest.mark.parametrize("order", ["none", "fifo:on_gap=skip"])
def test_what_the_network_loses_is_not_held_against_an_order(order: str) -> None:
    faults = sim.Faults(lost_share=0.5)
    result = sim.run(sim.Config(order=order, processes=3, crashes=1, faults=faults, judge=True))
    assert result.packets_lost
    assert (result.ok, result.verdicts["lost"].ok) == (True, False)


def test_a_sequencer_that_dies_in_the_middle_of_a_multicast_leaves_one_without() -> None:
    dies = sim.Crash(process=0, effects=2)  # it sends, and one of two gets it
    without, successor = (play(order, dies) for order in ("sequencer", "sequencer:on_crash=go-on"))
    assert without.verdicts["agreement"].text == "p1 has delivered p0.1, and p2 never delivers it"
    assert (without.ok, without.verdicts["lost"].ok) == (True, False)
    assert successor.ok
    assert all(successor.verdicts[name].ok for name in TAKEN)


def test_who_lives_learns_of_a_death_behind_the_last_packet_of_the_dead() -> None:
    slow = {"bandwidth_bytes_per_s": 1000.0, "notice_s": 0.001}  # a packet takes a tenth of a second
    result = play("skeen:on_crash=go-on", sim.Crash(process=0, at_s=0.01), **slow)
    assert result.execution is not None
    of_dead = [e for e in result.execution.events if e.peer == 0 and e.kind in ("receive", "learn")]
    for process in (1, 2):
        kinds = [event.kind for event in of_dead if event.process == process]
        assert kinds.count("learn") == 1
        assert kinds[-1] == "learn"
        assert "receive" in kinds


def test_the_same_seed_gives_the_same_deaths_and_they_can_be_given_back() -> None:
    drawn = sim.Config(order="skeen:on_crash=go-on", processes=5, crashes=3, seed=11, judge=True)
    text = crashes.listed(drawn.deaths)
    given = sim.Config(order=drawn.order, processes=5, crashes=crashes.read(text), seed=11, judge=True)
    results = [sim.run(one).as_json() for one in (drawn, drawn, given)]
    assert results[0] == results[1] == results[2]
    assert len(results[0]["deaths"]) == 3
    assert sim.Config(order="fifo", processes=5, crashes=3, seed=11).deaths == drawn.deaths


@pytest.mark.parametrize("at_s", [0.0, -0.0, 1e-9, 0.1, 12345.678901, 1e9])
def test_a_crash_is_read_as_it_is_written(at_s: float) -> None:
    crash = sim.Crash(process=1, at_s=at_s, effects=2)
    assert crashes.read(str(crash)) == (crash,)


def test_processes_may_die_where_nothing_is_sent() -> None:
    empty = Schedule(("ann", "bob"), array("d"), array("I"), array("Q", [0]), array("I"), array("Q"))
    assert sim.run(sim.Config(order="none", workload="trace", schedule=empty, crashes=1)).ok


def test_a_coordinator_is_called_by_its_name_in_the_workload() -> None:
    for process in range(4):
        dies = [sim.Crash(process=process, at_s=0.01)]
        result = sim.run(sim.Config(order="sequencer", processes=4, coordinator=2, crashes=dies, judge=True))
        assert list(result.deaths) == [process]
        assert result.verdicts["lost"].ok == (process != 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"order": "bus1:on_crash=go-on"}, "option 'on_crash=go-on' of order bus1: expected unicast=direct"),
        ({"crashes": 10}, "crashes is 10: expected 0 to 9"),
        ({"crashes": [sim.Crash(process=10)]}, r"crashes\[0\].process is 10: expected 0 to 9"),
        ({"crashes": [sim.Crash(process=1)] * 2}, "a process dies twice"),
        ({"crashes": 1, "dependent_share": 0.5}, "would wait for ever"),
        ({"crashes": 1, "faults": sim.Faults(doubled_share=0.1, lets_copies_pass=True)}, "may come twice"),
        ({"crashes": ["2@500"]}, "expected Crash"),
        ({"crashes": None}, "expected Iterable"),
        ({"order": "skeen:on_crash=go-on", "processes": 33}, "33 processes: expected at most 32"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sim.run(sim.Config(**{"order": "none", "processes": 10, **options}))  # type: ignore[arg-type]


def test_the_command_line_says_who_died_and_takes_that_back() -> None:
    def run(who: str) -> tuple[int, str]:
        words = "sim run --order skeen,skeen:on_crash=go-on --fan-out 3 --processes 4 --messages 5 --jobs 1 --crashes"
        result = run_command(*words.split(), who, env={"COLUMNS": "200"})
        return result.exit_code, " ".join(result.output.split())

    code, drawn = run("2")
    assert (code, "All that was promised holds." in drawn) == (0, True)
    who = drawn.partition("crashes ")[2].partition(";")[0]
    assert len(crashes.read(who)) == 2  # type: ignore[arg-type]
    assert run(who) == (0, drawn)
    assert run("2@soon")[0] == 2
