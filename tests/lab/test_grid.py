# SPDX-License-Identifier: Apache-2.0
"""Grids: what their files may hold, which simulations they stand for, what is kept on disk, and what is made of it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command, wait_until

pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

from busq.lab.sweep import (
    FIGURES,
    Figure,
    Grid,
    GridError,
    Settings,
    SweepError,
    answers,
    cells,
    parse,
    plan,
    read,
    result_files,
    shipped,
    sweep,
    tasks,
)
from busq.lab.sweep.cells import simulator
from busq.lab.sweep.draw_grid import picture, pictures
from busq.lab.sweep.estimate import estimate, ratios
from busq.lab.sweep.pool import Pool
from busq.sim import run as simulate

pytestmark = pytest.mark.slow

QUICK = """
seeds = 3
keep = ["execution_time_s", "latency_mean_s"]

[all]
order = ["mfss", "cykas", "causal-matrix"]
processes = [3, 5]
bandwidth = [20, 1000]
messages = 6
interval = 1

[[compare]]
orders = ["cykas", "causal-matrix"]
over = "mfss"

[[winner]]
name = "fastest"

[[figure]]
kind = "map"
of = "fastest"
x = "bandwidth_bytes_per_s"
y = "processes"

[[figure]]
kind = "lines"
of = "speedup"
x = "processes"
series = ["order", "bandwidth_bytes_per_s"]
"""


busq = partial(run_command, "sweep")


def cut(grid: Grid, seeds: int, **values: tuple[Any, ...]) -> Grid:
    """The same grid with fewer values and seeds."""
    tables = [
        dataclasses.replace(table, values={**table.values, **values}, seeds=tuple(range(1, seeds + 1)))
        for table in grid.tables
    ]
    return dataclasses.replace(grid, tables=tuple(tables))


# ---- what a file may hold ----


def test_lists_are_axes_and_everything_is_combined_with_every_seed() -> None:
    grid = parse(QUICK)
    assert grid.axes == ("processes", "bandwidth_bytes_per_s", "order")
    assert grid.n_cells == 3 * 2 * 2 * 3 == len(cells(grid))
    assert grid.tables[0].seeds == (1, 2, 3)


def test_options_of_the_command_line_are_taken_in_its_units() -> None:
    grid = parse(
        "[grid]\norder = 'fifo'\nbandwidth = 50\ninterval = 2\ndelay = 7\njob-length = 3\nlost = 0\npayload = 9"
    )
    one = cells(grid)[0].config()
    assert one.bandwidth_bytes_per_s == 50 * 1e3
    assert (one.interval_s, one.propagation_delay_s, one.job_mean_s) == (2 / 1e3, 7 / 1e3, 3 / 1e3)
    assert one.payload_bytes == 9


def test_ranges_are_spread_evenly_or_by_factors_and_rounded_where_numbers_are_whole() -> None:
    text = "[grid]\norder = 'fifo'\nprocesses = {{from = 2, to = 200, {}}}"
    spreads = {
        "count = 3, scale = 'log'": (2, 20, 200),
        "count = 4": (2, 68, 134, 200),
        "step = 99": (2, 101, 200),
    }
    for how, values in spreads.items():
        assert parse(text.format(how)).tables[0].values["processes"] == values


def test_a_share_of_hotspots_chooses_the_workload_unless_the_file_does() -> None:
    text = "[grid]\norder = 'fifo'\nhotspot_share = [0.0, 0.2]\n"
    assert [cell.config().workload for cell in cells(parse(text))] == ["random", "hotspot"]
    assert {cell.config().workload for cell in cells(parse(text + "workload = 'ring'"))} == {"ring"}


def test_tables_share_what_stands_in_all_and_are_named() -> None:
    grid = parse("[all]\norder='fifo'\nprocesses=4\n[[grid]]\nname='a'\nfan_out=2\n[[grid]]\nname='b'\nprocesses=5")
    assert [(cell.table, cell.config().processes, cell.config().fan_out) for cell in cells(grid)] == [
        ("a", 4, 2),
        ("b", 5, 1),
    ]


WRONG = {
    "[grid]\norder = 'fifo'\nprocceses = 4": "unknown parameter 'procceses' (nearest: processes)",
    "[grid]\norder = 'mfs'": "mfs",
    "[grid]\nprocesses = 4": "order is missing",
    "[grid]\norder = 'fifo'\nprocesses = '4'": "processes is '4': expected a whole number",
    "[grid]\norder = 'fifo'\nprocesses = 4.5": "processes is 4.5: expected a whole number",
    "[grid]\norder = 'fifo'\nstaggered = 1": "staggered is 1: expected true or false",
    "[grid]\norder = 'fifo'\nprocesses = [4, 1]": "processes is 1: expected 2 to 65536",
    "[grid]\norder = 'fifo'\nhotspot_share = 2": "hotspot_share is 2.0: expected a number from 0 to 1",
    "[grid]\norder = 'fifo'\ninterval = nan": "interval_s is nan",
    "[grid]\norder = 'fifo'\nprocesses = []": "processes is an empty list",
    "[grid]\norder = []": "order is an empty list",
    "[grid]\norder = 'fifo'\nworkload = 'trace'": "no schedule",
    "[grid]\norder = 'fifo'\nschedule = 'x'": "schedule is nothing for a grid",
    "[grid]\norder = 'fifo'\nseed = 3": "expected seeds",
    "[grid]\norder = 'fifo'\nbandwidth = 5\nbandwidth_bytes_per_s = 5": "bandwidth_bytes_per_s is given twice",
    "[grid]\norder = 'fifo'\nprocesses = {from = 2, to = 9}": "either count or step",
    "[grid]\norder = 'fifo'\nprocesses = {from = 0, to = 9, count = 3, scale = 'log'}": "from above 0",
    "seeds = 0\n[grid]\norder = 'fifo'": "seeds is 0: expected how many",
    "seeds = [-1]\n[grid]\norder = 'fifo'": "seed -1: expected a whole number",
    "proceses = 3\n[grid]\norder = 'fifo'": "unknown key 'proceses'",
    "keep = ['execution_time']\n[grid]\norder = 'fifo'": "nearest: execution_time_s",
    "[grid]\norder = 'fifo'\n[[compare]]\nover = 'mfss'": "the grid has no order 'mfss'",
    "[grid]\norder = 'fifo'\n[[winner]]\nname = 'x'": "1 orders to choose from",
    "[grid]\norder = 'fifo'\n[[figure]]\nkind = 'pie'\nof = 'x'\nx = 'processes'": "kind is 'pie'",
    "[grid]\norder = 'fifo'\n[[figure]]\nkind = 'map'\nof = 'x'\nx = 'proceses'": "nearest: processes",
    "[[grid]]\nname='a'\norder='fifo'\n[[grid]]\nname='a'\norder='mfss'": "two [[grid]] are named 'a'",
    "grid = 4": "grid is 4: expected tables",
    "[grid]\norder = [1": "no TOML",
}


@pytest.mark.parametrize(("text", "told"), WRONG.items(), ids=list(WRONG.values()))
def test_a_wrong_grid_is_refused_with_what_was_found_and_what_was_expected(text: str, told: str) -> None:
    with pytest.raises(GridError) as caught:
        parse(text, where="x.toml")
    assert told in str(caught.value)
    assert str(caught.value).startswith("x.toml: ")
    assert "\n" not in str(caught.value)


def test_impossible_combinations_are_refused_or_left_out_but_never_silently() -> None:
    text = "[grid]\norder = 'mfss'\nprocesses = [3, 9]\nfan_out = [1, 5]"
    with pytest.raises(GridError, match=r"1 of 4 combinations are impossible, the first as fan_out is 5"):
        cells(parse(text))
    assert len(cells(parse('impossible = "skip"\n' + text))) == 3
    with pytest.raises(GridError, match="nothing to simulate"):
        cells(parse('impossible = "skip"\n' + text.replace("[1, 5]", "9")))


# ---- the grids that come with busq ----


def test_every_shipped_grid_can_be_read_and_says_what_it_is_for() -> None:
    for name in shipped():
        grid = read(name)
        found = cells(grid)
        assert grid.title
        assert grid.about
        assert grid.pictures
        assert len({cell.identity for cell in found}) <= len(found) <= grid.n_cells


def test_the_map_has_twenty_thousand_simulations_over_five_axes() -> None:
    grid = read("map")
    five = {"processes", "bandwidth_bytes_per_s", "propagation_delay_s", "fan_out", "hotspot_share"}
    assert set(grid.axes) == {*five, "order"}
    assert len({cell.identity for cell in cells(grid)}) >= 20_000


@pytest.mark.parametrize("name", FIGURES)
def test_the_grid_of_a_figure_has_exactly_the_simulations_of_the_figure(name: str) -> None:
    assert {cell.config() for cell in cells(read(name))} == set(Figure(name=name).configs())


def test_a_sweep_leaves_a_file_that_says_what_was_swept(tmp_path: Path) -> None:
    sweep(read("fig6"), tmp_path, Pool(1), limit=1)
    assert read(tmp_path / "grid.toml").tables == read("fig6").tables


def test_figure_5_comes_out_of_a_sweep_as_out_of_the_figure(tmp_path: Path) -> None:
    small = {"processes": (4,), "messages_per_process": (8,), "interval_s": (1e-3, 1e-2), "job_mean_s": (5e-3, 25e-3)}
    found = sweep(cut(read("fig5"), 3, **small), tmp_path, Pool(1))
    values = {"processes": (4,), "interval_s": (1e-3, 1e-2), "job_mean_s": (5e-3, 25e-3)}
    figure = Figure(name="fig5", values=values, settings=Settings(seeds=3, messages=8))
    axes = ("interval_ms", "job_ms", "job_blocks_sends", "job_blocks_all")
    points = {tuple(point[axis] for axis in axes): point for point in figure.measure(jobs=1).points}
    for row in found.comparisons:
        place = round(row["interval_s"] * 1e3), round(row["job_mean_s"] * 1e3)
        point = points[(*place, row["job_blocks_sends"], row["job_blocks_all"])]
        expected = point.estimate(row["comparison"])
        assert (row["ratio"], row["ratio_ci95"]) == pytest.approx((expected.mean, expected.half_width))
    assert len(found.comparisons) == 3 * len(points)


# ---- identities and tasks ----


def test_an_identity_stays_when_a_grid_grows_and_changes_with_every_parameter() -> None:
    small = cells(parse("[grid]\norder = 'mfss'\nprocesses = 4"))
    larger = cells(parse("seeds = 2\n[grid]\norder = ['cykas', 'mfss']\nprocesses = [4, 5]\ninterval = 10"))
    assert {cell.identity for cell in small} < {cell.identity for cell in larger}
    assert len({cell.identity for cell in larger}) == len(larger)
    other = cells(parse("[grid]\norder = 'mfss'\nprocesses = 4\njitter = 1"))
    assert other[0].identity != small[0].identity


def test_what_another_simulator_measured_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = parse("[grid]\norder = 'mfss'\nprocesses = [3, 4]\nmessages = 3")
    ours = {cell.identity for cell in cells(grid)}
    sweep(grid, tmp_path, Pool(1))
    for room in ("cells", "result_files", "answers"):
        monkeypatch.setattr(importlib.import_module(f"busq.lab.sweep.{room}"), "simulator", lambda: "another")
    assert not ours & {cell.identity for cell in cells(grid)}
    again = sweep(grid, tmp_path, Pool(1))
    assert again.measured == 2
    assert any("2 cells of another simulator" in note for note in again.notes)


def test_every_cell_is_in_one_task_and_tasks_are_even() -> None:
    found = cells(read("map"), limit=9000)
    dealt = tasks(found, cores=2)
    assert sorted(cell.identity for task in dealt for cell in task.cells) == sorted({cell.identity for cell in found})
    lengths = [task.seconds for task in dealt]
    assert min(lengths) > 0.95
    assert max(lengths) < 1.2 * min(lengths)


def test_cells_that_two_tables_share_are_simulated_once(tmp_path: Path) -> None:
    grid = parse("[all]\norder='mfss'\nmessages=3\n[[grid]]\nprocesses=[3, 4]\n[[grid]]\nprocesses=[4, 5]")
    found = sweep(grid, tmp_path, Pool(1))
    assert (found.measured, len(found.points)) == (3, 4)


def test_a_limit_takes_whole_situations_first() -> None:
    some = cells(parse(QUICK), limit=9)
    assert len(some) == 9
    assert len({cell.situation for cell in some}) == 1


# ---- sweeping ----


def test_means_intervals_and_ratios_are_those_of_the_simulations(tmp_path: Path) -> None:
    grid = parse(QUICK)
    found = sweep(grid, tmp_path, Pool(1))
    times = {(cell.point, cell.seed): simulate(cell.config()).execution_time_s for cell in cells(grid)}
    by_number = {cell.number: cell.point for cell in cells(grid)}
    for number, row in enumerate(found.points):
        expected = estimate([times[by_number[number], seed] for seed in (1, 2, 3)])
        assert row["execution_time_s"] == pytest.approx(expected.mean)
        assert row["execution_time_s_ci95"] == pytest.approx(expected.half_width)
    rows = {(row["order"], row["processes"], row["bandwidth_bytes_per_s"]): row for row in found.points}
    for row in found.comparisons:
        place = (row["processes"], row["bandwidth_bytes_per_s"])
        pairs = ratios(
            rows[("mfss", *place)]["execution_time_s_repeats"], rows[(row["order"], *place)]["execution_time_s_repeats"]
        )
        assert row["ratio"] == pytest.approx(estimate(pairs).mean)
    for row in found.winners:
        place = (row["processes"], row["bandwidth_bytes_per_s"])
        means = {order: rows[(order, *place)]["execution_time_s"] for order in ("mfss", "cykas", "causal-matrix")}
        assert row["order"] == min(means, key=lambda order: means[order])
        assert row["clear"] == (not row["level"])
        assert row["margin"] >= 1


def test_a_second_sweep_measures_nothing_and_more_seeds_measure_only_themselves(tmp_path: Path) -> None:
    first = sweep(parse(QUICK), tmp_path, Pool(1))
    again = sweep(parse(QUICK), tmp_path, Pool(1))
    assert (first.measured, again.measured) == (36, 0)
    assert list(first.points) == list(again.points)
    more = sweep(parse(QUICK.replace("seeds = 3", "seeds = 4")), tmp_path, Pool(1))
    assert more.measured == 12


def test_a_cell_without_a_result_is_a_row_with_its_error_and_is_tried_again(tmp_path: Path) -> None:
    grid = parse("packets_max = 100\n[grid]\norder = ['mfss', 'lamport']\nprocesses = [4, 20]\nmessages = 5")
    found = sweep(grid, tmp_path, Pool(1))
    wrong = {(row["order"], row["processes"]) for row in found.points if row["failed"]}
    assert wrong == {("mfss", 20), ("lamport", 4), ("lamport", 20)}
    assert all(row["error"].startswith("too large") for row in found.points if row["failed"])
    assert not found.ok
    assert found.failed == 3
    assert sweep(dataclasses.replace(grid, packets_max=1e9), tmp_path, Pool(1)).ok


def test_an_order_that_loses_its_run_is_told_and_not_averaged(tmp_path: Path) -> None:
    found = sweep(parse("[grid]\norder = 'mfss'\nlost_share = 0.0\nprocesses = 3\nmessages = 2"), tmp_path, Pool(1))
    assert found.ok
    row = result_files.measure("x", {"order": "mfss", "processes": 3, "lost_share": 0.5}, 1)
    assert "lost_share is 0.5" in row["error"]


def test_a_damaged_file_is_left_out_with_a_word_and_its_cells_are_measured_again(tmp_path: Path) -> None:
    grid = parse(QUICK)
    for text in (QUICK.replace("processes = [3, 5]", "processes = 3"), QUICK):
        sweep(parse(text), tmp_path, Pool(1))
    names = sorted(result_files.listed(tmp_path))
    assert len(names) == 2
    path = result_files.place_of(tmp_path) / names[0]
    path.write_bytes(path.read_bytes()[:-20])
    (result_files.place_of(tmp_path) / "part-0123-4.parquet").write_bytes(b"")
    found = sweep(grid, tmp_path, Pool(1))
    assert found.measured == 18
    assert [note.split(": ")[1][:8] for note in found.notes] == ["left out"] * len(found.notes)
    assert found.ok


def test_two_sweeps_into_one_directory_are_refused(tmp_path: Path) -> None:
    with result_files.holding(tmp_path), pytest.raises(SweepError, match="another sweep"):
        sweep(parse(QUICK), tmp_path, Pool(1))


def test_hidden_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    place = result_files.place_of(tmp_path)
    place.mkdir(parents=True)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host = os.uname().nodename
    dead, alive = (place / f".part-1-2.parquet.{host}.{pid}" for pid in (child.pid, os.getpid()))
    for path in (dead, alive):
        path.touch()
    with result_files.holding(tmp_path):
        assert not dead.exists()
        assert alive.exists()


KILLED = """
import sys
from busq.lab.sweep import parse, sweep
from busq.lab.sweep.pool import Pool
if __name__ == "__main__":
    sweep(parse(open(sys.argv[1]).read()), sys.argv[2], Pool(2))
"""


def test_a_pool_killed_half_way_loses_only_what_ran(tmp_path: Path) -> None:
    """Killed with SIGKILL as soon as two files are there; the next sweep measures the rest, and nothing twice."""
    text = (
        QUICK.replace("[3, 5]", "[60, 80]").replace("messages = 6", "messages = 60").replace("seeds = 3", "seeds = 20")
    )
    text = text.replace('"causal-matrix"]\nprocesses', '"causal-matrix", "lamport"]\nprocesses')
    script, grid = tmp_path / "killed.py", tmp_path / "grid.toml"
    script.write_text(KILLED)
    grid.write_text(text)
    out = tmp_path / "out"
    child = subprocess.Popen([sys.executable, script, grid, out])
    try:
        wait_until(lambda: len(result_files.listed(out)) >= 2)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    chosen = {cell.identity for cell in cells(parse(text))}
    kept = result_files.finished(out, chosen)
    todo = plan(parse(text), out, 2)
    assert 0 < len(kept.identities) < len(chosen)
    assert len(kept.identities) + sum(len(task.cells) for task in todo.dealt) == len(chosen)
    assert not {cell.identity for task in todo.dealt for cell in task.cells} & kept.identities
    assert sum(result_files.listed(out).values()) == len(kept.identities)


# ---- what people see ----


def test_pictures_are_drawn_of_winners_and_comparisons(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = sweep(parse(QUICK), tmp_path, Pool(1))
    drawn = pictures(found)
    assert set(drawn) == {"figure-1", "figure-2"}
    assert all(data.startswith(b"\x89PNG") for data in drawn.values())
    for order in {row["order"] for row in found.winners}:
        assert order.encode() in picture(found, found.grid.pictures[0], "svg")


def test_the_command_prints_a_table_or_json_and_writes_what_it_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    grid, out = tmp_path / "own.toml", tmp_path / "out"
    grid.write_text(QUICK)
    plot = tmp_path / "p.png"
    told = busq(grid, "--out", out, "--engine", "pool", "--jobs", 1, "--plot", plot)
    assert told.exit_code == 0, told.output
    assert "36 simulations, 12 points" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80
    assert plot.exists()
    assert (tmp_path / "p-figure-2.png").exists()
    found = json.loads(busq(grid, "--out", out, "--engine", "pool", "--json").stdout)
    assert found["ok"]
    assert (found["cells"], found["measured"], len(found["points"])) == (36, 0, 12)
    point = found["points"][0]
    assert {"order", "processes", "bandwidth_kB_per_s", "execution_time_s", "execution_time_s_ci95"} <= set(point)
    assert math.isclose(point["execution_time_s"], sum(point["execution_time_s_repeats"]) / 3)


def test_a_dry_run_tells_how_much_there_is_to_do_and_does_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = busq("map", "--dry-run", "--json", "--out", out)
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["missing"] == found["cells"] >= 20_000
    assert found["tasks"] > 10
    assert found["seconds_expected"] > 10
    assert not out.exists()
    assert "tasks, about" in busq("fig4", "--dry-run", "--out", out).stdout


def test_the_list_names_every_grid() -> None:
    told = busq("--list").stdout
    assert all(name in told for name in shipped())


def test_complaints_are_one_line_with_exit_code_2(tmp_path: Path) -> None:
    huge = tmp_path / "huge.toml"
    huge.write_text("seeds = 1000001\n[grid]\norder = 'mfss'\nprocesses = 4")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[grid]\norder = 'mfss'\nproccesses = 4")
    for arguments, told in (
        (("nothing.toml",), "no such file"),
        (("fig7",), "nearest: fig"),
        ((wrong,), "nearest: processes"),
        ((huge,), "more than 1,000,000"),
        ((), "expected a grid"),
        (("fig4", "--report", "x.txt"), "ends with .html"),
        (("fig4", "--engine", "pool", "--master", "local[2]"), "--engine pool takes neither"),
    ):
        result = busq(*arguments)
        assert result.exit_code == 2, arguments
        assert told in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_the_name_of_the_simulator_has_the_version_and_what_it_gives() -> None:
    assert simulator().count("-") == 1
    assert simulator() == answers.simulator()
