# SPDX-License-Identifier: Apache-2.0
"""`busq sim` as its users see it: tables, JSON, pictures, exit codes and complaints."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import command_json, run_command

from busq import replay, workload
from busq.execution import Execution
from busq.lab.sweep import pool

VERDICTS = {"lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total"}
TINY = ["--seeds", "2", "--messages", "6", "--jobs", "1"]


run = partial(run_command, "sim")
as_json = partial(command_json, "sim")


# ---- figures ----


def test_fig4_prints_a_point_per_order_and_cell_with_raw_repeats() -> None:
    found = as_json("fig4", "--processes", "3,5", "--bandwidths", "20,100", *TINY)
    places = [(point["processes"], point["bandwidth_kB_per_s"], point["order"]) for point in found["points"]]
    assert len(set(places)) == len(places) == 2 * 2 * 3
    for point in found["points"]:
        assert point["execution_time_s"] == pytest.approx(sum(point["execution_times_s"]) / 2)
        assert point["processes_per_kB_per_s"] == point["processes"] / point["bandwidth_kB_per_s"]
    assert {claim["section"] for claim in found["claims"]} == {"5.2"}
    assert {claim["verdict"] for claim in found["claims"]} <= {"holds", "depends", "fails", "open"}


def test_fig5_prints_both_speedups_for_every_interval_and_job_length() -> None:
    found = as_json("fig5", "--processes", 4, "--intervals", "1,10", "--job-lengths", "5,25", *TINY)
    cells = [(1, 5), (1, 25), (10, 5), (10, 25)]
    assert [(point["interval_ms"], point["job_ms"]) for point in found["points"]] == 3 * cells
    for point in found["points"]:
        assert (point["order"], point["over"]) == ("cykas", "mfss")
        assert point["speedup"] == pytest.approx(sum(point["speedups"]) / 2)
        assert len(point["job_start_speedups"]) == 2


SMALL = {
    "fig5": ("fig5", "--processes", 10, "--intervals", "1,10", "--job-lengths", "5,25"),
    "fig6": ("fig6", "--processes", 10, "--hotspots", "0,20"),
}


@pytest.mark.parametrize("name", list(SMALL))
def test_all_readings_of_jobs_stand_side_by_side_and_the_one_that_is_probably_the_papers_is_last(name: str) -> None:
    all_of_them = as_json(*SMALL[name], *TINY)
    options = ("--jobs-beside-sends", "--job-blocks-sends", "--job-blocks-all")
    each = [as_json(*SMALL[name], *TINY, option) for option in options]
    assert all_of_them["points"] == [point for one in each for point in one["points"]]
    assert all_of_them["claims"] == [claim for one in each for claim in one["claims"]]
    values = []
    for one, blocks in zip(each, ((False, False), (True, False), (True, True)), strict=True):
        assert {(point["job_blocks_sends"], point["job_blocks_all"]) for point in one["points"]} == {blocks}
        values.append([point["communication_speedups"] for point in one["points"]])
    assert values[0] != values[1] != values[2] != values[0]
    last = {
        (point.get("job_ms"), point.get("interval_ms"), point.get("hotspot_share"), point.get("jobs")): point
        for point in all_of_them["points"]
    }
    assert list(last.values()) == each[-1]["points"]


@pytest.mark.parametrize("name", list(SMALL))
def test_jobs_beside_sends_do_not_delay_communication_and_so_cannot_be_what_the_paper_measured(name: str) -> None:
    """ "... we measure total execution time (i.e., time to complete all protocol communications) ..."  (5.1), and then
    "... as job lengths increase to 50ms, the average speedup first increases slightly and then decreases ..."  (5.3)"""
    points = as_json(*SMALL[name], *TINY)["points"]
    for blocks in (False, True):
        cells: dict[tuple[float, ...], set[tuple[float, ...]]] = {}
        for point in points:
            if point["job_blocks_sends"] == blocks:
                place = (point.get("interval_ms", 0), point.get("hotspot_share", 0))
                cells.setdefault(place, set()).add(tuple(point["communication_speedups"]))
        assert all(len(found) == 1 for found in cells.values()) != blocks


def test_a_figure_says_how_claims_change_with_what_ends_an_execution_and_with_the_reading_of_jobs() -> None:
    found = as_json(*SMALL["fig6"], *TINY)
    assert {claim["measure"] for claim in found["claims"]} == {"communication_s"}
    assert {claim["measure"] for claim in found["claims_by_execution_time"]} == {"execution_time_s"}
    for claims in (found["claims"], found["claims_by_execution_time"]):
        assert [claim["reading"] for claim in claims] == [
            *["jobs beside sends"] * 4,
            *["jobs block sends"] * 4,
            *["jobs block all"] * 4,
        ]
    text = run("fig6", "--processes", 10, "--hotspots", "0,20", *TINY).stdout
    assert "until the last packet" in text
    assert "What changes the verdicts" in text or "Every verdict is the same" in text


def test_fig4_is_measured_for_programs_whose_sends_depend_on_what_was_received_too() -> None:
    grid = ("fig4", "--processes", "3,5", "--bandwidths", "20,100", *TINY)
    timed, dependent, both = (as_json(*grid, "--program", name) for name in ("timed", "dependent", "both"))
    assert timed["points"] == as_json(*grid)["points"]
    assert both["points"] == [*timed["points"], *dependent["points"]]
    assert {point["program"] for point in dependent["points"]} == {"dependent"}
    assert [point | {"program": "timed"} for point in dependent["points"]] != timed["points"]


def test_fig6_prints_both_scenarios_for_every_share_of_hotspots() -> None:
    found = as_json("fig6", "--processes", 10, "--hotspots", "0,20", *TINY)
    assert {(point["hotspot_share"], point["jobs"]) for point in found["points"]} == {
        (share, jobs) for share in (0.0, 0.2) for jobs in (False, True)
    }
    assert all(point["speedup"] > 0 for point in found["points"])


def test_the_same_seeds_give_the_same_figure_and_others_another() -> None:
    grid = ("fig6", "--processes", 10, "--hotspots", "0,20", *TINY)
    points = [as_json(*grid, *more)["points"] for more in ([], ["--seed", 1], ["--seed", 99])]
    assert points[0] == points[1] != points[2]


def test_sizes_reach_the_simulation() -> None:
    grid = ("fig4", "--processes", "4", "--bandwidths", "20", *TINY)
    small, large = as_json(*grid), as_json(*grid, "--payload", "1K", "--clock-entry", 100)
    for before, after in zip(small["points"], large["points"], strict=True):
        assert before["execution_time_s"] < after["execution_time_s"]
    assert large["settings"]["payload_bytes"] == 1024


@pytest.mark.parametrize("figure", ["fig4", "fig5", "fig6"])
def test_a_figure_says_what_the_paper_claims_and_what_was_measured(figure: str) -> None:
    processes = ["--processes", "4"]
    result = run(figure, *processes, *TINY)
    assert result.exit_code == 0, result.output
    for word in ("the paper says", "section", "verdict", "measured", f"Figure {figure[-1]}:", "means of 2 seeds"):
        assert word in result.stdout


def test_all_orders_extend_a_figure_without_those_for_the_laboratory() -> None:
    found = as_json("fig6", "--processes", 10, "--hotspots", "0", "--orders", "all", *TINY)
    orders = {point["order"] for point in found["points"]}
    assert {"cykas", "none", "skeen", "causal-matrix", "sequencer"} <= orders
    assert orders.isdisjoint({"mfss", "cykas-telling", "sync-naive", "lamport-literal"})


def test_what_is_too_expensive_is_left_out_with_a_reason() -> None:
    small = (
        "fig4",
        "--processes",
        "30",
        "--bandwidths",
        "20",
        "--orders",
        "lamport,mfss",
        "--packets-max",
        20_000,
        *TINY,
    )
    assert [gap["order"] for gap in as_json(*small)["left_out"]] == ["lamport"]
    assert "left out: lamport with 30 processes" in run(*small).stdout


def test_both_formats_of_a_picture_may_be_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / "figure.png", tmp_path / "figure.svg"]
    result = run("fig6", "--processes", 5, "--hotspots", "0,20", *TINY, "--plot", paths[0], "--plot", paths[1])
    assert result.exit_code == 0
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "share of hotspots" in paths[1].read_text()
    assert result.stderr.count("wrote ") == 2


def test_sensitivity_has_a_row_per_value_and_a_verdict_per_claim() -> None:
    found = as_json("sensitivity", "--figures", "fig6", *TINY)
    assert {point["figure"] for point in found["points"]} == {"fig6"}
    assert {"payload", "header", "control packet", "jobs", "job spread"} < {row["parameter"] for row in found["points"]}
    text = run("sensitivity", "--figures", "fig6", *TINY)
    assert "verdicts by parameter" in text.stdout


# ---- run ----


def test_run_judges_one_order() -> None:
    found = as_json("run", "--order", "cykas", "--processes", 5, "--messages", 10)
    assert found["ok"] is True
    assert (found["messages"], found["deliveries"]) == (50, 50)
    assert set(found["verdicts"]) >= VERDICTS
    assert found["verdicts"]["causal"] == {"ok": True, "count": 0, "claimed": True}
    assert found["verdicts"]["total"]["claimed"] is False


def test_run_compares_several_orders_and_a_fault_counts_where_it_was_promised_only() -> None:
    arguments = ("run", "--order", "none,fifo", "--processes", 3, "--messages", 50, "--interval", 0, "--jitter", 50)
    found = as_json(*arguments)
    alone = {point["order"]: point["verdicts"]["fifo"] for point in found["points"]}
    assert alone["none"]["ok"] is False
    assert alone["fifo"] == {"ok": True, "count": 0, "claimed": True}
    assert found["ok"] is True
    assert found["verdicts"]["fifo"] == {"ok": True, "count": 0, "claimed": True}
    assert found["messages"] == 300
    assert "not promised" in run(*arguments).stdout


def test_a_broken_promise_is_exit_code_1_and_told() -> None:
    network = ("--interval", 2, "--bandwidth", 100, "--jitter", 40, "--fan-out", 3, "--seed", 1)
    arguments = ("run", "--order", "lamport-literal", "--processes", 5, "--messages", 60, *network)
    assert as_json(*arguments, code=1)["ok"] is False
    result = run(*arguments)
    assert result.exit_code == 1
    assert "lamport-literal broke its promise, total" in " ".join(result.stdout.split())


def test_an_order_that_gets_stuck_is_exit_code_1_and_told() -> None:
    result = run("run", "--order", "sync-naive", "--processes", 3, "--messages", 10, "--interval", 0)
    assert result.exit_code == 1
    assert "sync-naive got stuck" in result.stdout


def test_run_takes_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "mails.csv"
    trace.write_text("time,sender,recipients\n0,ann,bob cleo\n1,bob,cleo\n2,cleo,ann bob\n")
    found = as_json("run", "--order", "skeen", "--trace", trace)
    assert (found["messages"], found["deliveries"], found["ok"]) == (3, 5, True)
    assert found["points"][0]["execution_time_s"] >= 2


def test_run_records_an_execution_for_diagrams(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    result = run("run", "--order", "mfss", "--processes", 3, "--messages", 2, "--record", path)
    assert result.exit_code == 0
    execution = Execution.from_json(path.read_text())
    assert sum(event.kind == "deliver" for event in execution.events) == 6


def test_without_judges_there_are_no_verdicts() -> None:
    found = as_json("run", "--order", "mfss", "--processes", 3, "--no-judge")
    assert (found["ok"], found["verdicts"]) == (True, {})


# ---- advise ----


def test_advise_says_which_order_to_take() -> None:
    arguments = ("advise", "--guarantee", "causal", "--processes", 5, "--messages", 10, "--seeds", 1, "--jobs", 1)
    found = as_json(*arguments)
    assert found["ok"] is True
    assert found["take"] == found["points"][0]["order"]
    assert all(point["latency_s_mean"] >= found["points"][0]["latency_s_mean"] for point in found["points"])
    assert f"Take {found['take']}" in run(*arguments).stdout


def test_advise_by_something_else_may_take_another_order() -> None:
    arguments = ("advise", "--processes", 20, "--bandwidth", 10_000, "--seeds", 1, "--jobs", 1)
    by_latency, by_bytes = as_json(*arguments), as_json(*arguments, "--by", "bytes")
    assert by_bytes["points"][0]["bytes_per_message"] == min(p["bytes_per_message"] for p in by_latency["points"])
    assert by_latency["take"] != by_bytes["take"]


def test_advise_about_several_guarantees_and_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "mails.csv"
    trace.write_text("time,sender,recipients\n0,ann,bob cleo\n0.1,bob,cleo ann\n")
    found = as_json("advise", "--guarantee", "total,causal", "--trace", trace, "--seeds", 1, "--jobs", 1)
    assert "skeen" not in {point["order"] for point in found["points"]}  # total, and not causal
    assert found["take"] is not None


# ---- complaints ----


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fig4", "--orders", "nonsense"], "nonsense"),
        (["fig4", "--processes", "1"], "expected numbers from 2"),
        (["fig4", "--processes", "2.5"], "is no whole number"),
        (["fig5", "--intervals", "a,b"], "is no number"),
        (["fig5", "--intervals", "nan"], "expected numbers from"),
        (["fig6", "--hotspots", "100"], "expected numbers from 0 to 99"),
        (["fig6", "--plot", "figure.bmp"], "expected a name that ends in"),
        (["fig6", "--seeds", "0"], "--seeds"),
        (["sensitivity", "--figures", "fig7"], "expected some of fig4, fig5, fig6"),
        (["run"], "--order"),
        (["run", "--order", "mfss", "--processes", "1"], "--processes"),
        (["run", "--order", "mfss", "--lost", "0.5"], "lost_share is 0.5"),
        (["run", "--order", "mfss", "--fan-out", "10"], "fan_out"),
        (["run", "--order", "mfss,fifo", "--record", "x.json"], "--record takes one order"),
        (["run", "--order", "mfss", "--trace", "/nowhere.csv"], "/nowhere.csv"),
        (["advise", "--guarantee", "speed"], "expected some of fifo, causal"),
        (["advise", "--guarantee", "synchronous,total"], "no order promises synchronous and total"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_with_exit_code_2(arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_trace_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "mails.csv"
    trace.write_text("time,sender,recipients\nnoon,ann,bob\n")
    result = run("run", "--order", "mfss", "--trace", trace)
    assert result.exit_code == 2
    assert "line 2" in result.stderr


def test_every_command_has_help_with_examples() -> None:
    assert run("--help").exit_code == 0
    for name in ("fig4", "fig5", "fig6", "sensitivity", "run", "advise"):
        result = run(name, "--help")
        assert result.exit_code == 0
        assert "Examples:" in result.stdout


def test_an_order_with_two_options_may_stand_in_a_list() -> None:
    from busq.cli.base import split_orders

    read = lambda text: split_orders(None, None, text)  # type: ignore[arg-type]  # noqa: E731
    assert read("skeen, bus1:unicast=direct,estimate=best,fifo:on_gap=skip, mfss") == [
        "skeen",
        "bus1:unicast=direct,estimate=best",
        "fifo:on_gap=skip",
        "mfss",
    ]
    assert read("") == []
    assert read(None) is None


def test_a_schedule_says_what_its_sends_wait_for_and_replay_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "relay.csv"
    path.write_text("time,sender,recipients,after\n0,ann,bob,\n0,bob,cleo,1\n")
    found = as_json("run", "--order", "mfss", "--trace", path, "--bandwidth", 96)
    assert found["points"][0]["communication_s"] > 0.012  # one message after the other
    path.write_text("time,sender,recipients,after\n0,ann,bob,\n0,bob,cleo,2\n")
    assert "waits until its sender has received 2" in run("run", "--order", "mfss", "--trace", path).stderr
    path.write_text("time,sender,recipients,after\n0,ann,bob,\n0,bob,cleo,x\n")
    assert (
        "line 3: after 'x': expected a whole number of messages"
        in run("run", "--order", "mfss", "--trace", path).stderr
    )
    path.write_text("time,sender,recipients,after\n0,ann,bob,\n0,bob,cleo,1\n")
    with pytest.raises(ValueError, match="the column after"):
        replay.run(workload.read(path))


def test_the_coordinator_and_downlinks_reach_the_simulation() -> None:
    star = ("run", "--order", "sequencer", "--workload", "client-server", "--messages", 20)
    fair, served = (as_json(*star, *more)["points"][0] for more in ([], ["--coordinator", 0]))
    assert (fair["uplink_busiest"], served["uplink_busiest"]) == (1, 0)
    slow = as_json(*star, "--downlink", 1)["points"][0]
    assert slow["communication_s"] > 2 * fair["communication_s"]
    assert "coordinator is 10" in run(*star, "--coordinator", 10).stderr


# ---- stopped ----


def stopped_after(monkeypatch: pytest.MonkeyPatch, simulations: int) -> None:
    """Ctrl-C during the simulation after so many."""
    done = itertools.count()
    simulate = pool.run

    def run_or_stop(config: Any) -> Any:
        if next(done) >= simulations:
            raise KeyboardInterrupt
        return simulate(config)

    monkeypatch.setattr(pool, "run", run_or_stop)


FIG4 = ["fig4", "--jobs", "1", "--seeds", "2", "--messages", "5", "--processes", "4,6", "--bandwidths", "100,1000"]


def test_a_figure_that_is_stopped_prints_the_points_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after(monkeypatch, 7)
    result = run(*FIG4, "--orders", "all")
    assert result.exit_code == 130
    assert re.search(r"INCOMPLETE: stopped after 7 of \d+ simulations", result.stderr)
    assert "Claims" not in result.stdout
    rows = [line for line in result.stdout.splitlines() if re.search(r"\d\.\d+ ±", line)]
    assert rows, result.stdout


@pytest.mark.parametrize("simulations", [0, 1, 5, 9])
@pytest.mark.parametrize("figure", ["fig4", "fig5", "fig6", "sensitivity"])
def test_whenever_it_is_stopped_what_is_there_is_whole(
    monkeypatch: pytest.MonkeyPatch, figure: str, simulations: int
) -> None:
    stopped_after(monkeypatch, simulations)
    arguments = [figure, "--jobs", "1", "--seeds", "2", "--messages", "5", "--processes", "4", "--json"]
    result = run(*arguments)
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert found["complete"] is False
    assert len(found["points"]) <= simulations // 2 or figure == "sensitivity"
    assert f"stopped after {simulations} of" in result.stderr
    assert run(*arguments[:-1]).exit_code == 130


@pytest.mark.parametrize("simulations", [0, 2])
def test_a_run_of_several_orders_that_is_stopped_prints_those_that_are_through(
    monkeypatch: pytest.MonkeyPatch, simulations: int
) -> None:
    arguments = ["run", "--jobs", "1", "--order", "mfss,cykas,fifo", "--processes", "4", "--messages", "5"]
    stopped_after(monkeypatch, simulations)
    result = run(*arguments, "--json")
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert found["complete"] is False
    assert [point["order"] for point in found["points"]] == ["mfss", "cykas", "fifo"][:simulations]
    assert f"INCOMPLETE: stopped after {simulations} of 3 simulations" in result.stderr


def test_a_run_that_is_stopped_prints_a_table_of_the_orders_that_are_through(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after(monkeypatch, 2)
    text = run("run", "--jobs", "1", "--order", "mfss,cykas,fifo", "--processes", "4", "--messages", "5")
    assert text.exit_code == 130
    rows = {line.split()[0] for line in text.stdout.splitlines() if line.split()}
    assert {"mfss", "cykas"} <= rows
    assert "fifo" not in rows


def test_sensitivity_that_is_stopped_prints_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["sensitivity", "--figures", "fig5", "--jobs", "1", "--seeds", "1", "--messages", "5"]
    stopped_after(monkeypatch, 100)
    result = run(*arguments)
    assert result.exit_code == 130
    assert "INCOMPLETE: stopped after 100 of" in result.stderr
    assert "as given" in result.stdout


def test_a_network_that_is_cut_holds_up_what_crosses() -> None:
    bound = ["run", "--order", "mfss", "--processes", 4, "--messages", 10, "--interval", 1]
    cut = ["--partition", "2-900:0,1", "--partition", "0.5-1:3"]
    whole, late = (as_json(*bound, *more)["points"][0] for more in ([], cut))
    assert late["ok"]
    assert whole["communication_s"] < 0.9 < late["communication_s"]
    printed = " ".join(run(*bound, *cut).stdout.split())
    assert "cut off from 2 to 900 ms: 0, 1; cut off from 0.5 to 1 ms: 3; " in printed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("10-50", "expected times in ms and processes, as in 10-50:0,1"),
        ("50-10:0", "expected an end after its beginning"),
        ("10-50:7", "a process of a partition is 7"),
        ("10-50:", "expected times"),
    ],
)
def test_a_cut_that_cannot_be_is_refused(text: str, complaint: str) -> None:
    result = run("run", "--order", "none", "--processes", 4, "--partition", text)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())
