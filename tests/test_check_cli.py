# SPDX-License-Identifier: Apache-2.0
"""`busq check` as its users see it: text, JSON, files, exit codes and complaints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import TESTS, wait_until

from busq.check import Counterexample, bounds
from busq.cli import commands
from busq.orders import ORDERS, parse
from busq.scenario import load

LITTLE = ["--memory", "64MiB"]
FIGURES = {
    "order",
    "processes",
    "messages",
    "unique_states",
    "total_states",
    "max_depth",
    "seconds",
    "holds",
    "complete",
}


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(commands, ["check", *map(str, arguments)], prog_name="busq")


def as_json(*arguments: Any, code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


# ---- verdicts ----


def test_an_order_that_keeps_its_promise() -> None:
    result = run("mfss", "--messages", 2, *LITTLE)
    assert result.exit_code == 0, result.output
    assert "HOLDS in every execution within this bound" in result.stdout
    for word in ("states", "moves", "seconds", "memory", "probability", "fifo", "causal", "stuck", "held back"):
        assert word in result.stdout
    assert result.stderr == ""


def test_an_order_that_breaks_its_promise_shows_how() -> None:
    result = run("cykas-telling", "--messages", 2, *LITTLE)
    assert result.exit_code == 1
    assert "VIOLATION: causal, after 9 steps (the shortest)" in result.stdout
    assert "enters secret mode" in result.stdout
    assert "causal is broken:" in result.stdout
    assert "is in the past of" in " ".join(result.stdout.split())


def test_what_is_not_promised_may_break() -> None:
    result = run("fifo", "--messages", 2, *LITTLE)
    assert result.exit_code == 0
    (row,) = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["causal"]]
    assert row[:2] == ["causal", "no"]


def test_other_properties_may_be_asked_for() -> None:
    assert run("fifo", "--messages", 2, "--property", "fifo", *LITTLE).exit_code == 0
    result = run("fifo", "--messages", 2, "--property", "causal", *LITTLE)
    assert result.exit_code == 1
    assert "VIOLATION: causal" in result.stdout


def test_what_was_left_out_is_said() -> None:
    result = run("cykas", "--memory", "2MiB")
    assert result.exit_code == 0
    assert "NOT COMPLETE: the memory was full" in result.stdout
    assert "HOLDS" not in result.stdout


def test_json_has_a_point_with_the_figures_and_the_counterexample() -> None:
    (point,) = as_json("mfss", "--messages", 2, *LITTLE)["points"]
    assert set(point) >= FIGURES
    assert (point["order"], point["processes"], point["messages"]) == ("mfss", 3, 2)
    assert (point["holds"], point["complete"], point["counterexample"]) == (True, True, None)
    assert point["verdicts"]["causal"] == {"ok": True, "claimed": True, "judged": True}
    (point,) = as_json("sync-naive", "--processes", 2, "--messages", 1, *LITTLE, code=1)["points"]
    assert (point["holds"], point["complete"]) == (False, False)
    assert point["counterexample"]["is_shortest"]
    assert [step["kind"] for step in point["counterexample"]["steps"]] == ["submit", "submit", "receive", "receive"]


def test_options_reach_the_search() -> None:
    options = ["--processes", 2, "--messages", 1, "--fan-out", 1, "--application", "reply", "--network", "fifo"]
    (point,) = as_json("skeen", *options, "--no-reductions", "--threads", 1, "--depth", 50, *LITTLE)["points"]
    assert (point["fan_out"], point["application"], point["network"]) == (1, "reply", "fifo")
    assert (point["reductions"], point["threads"]) == ([], 1)
    (point,) = as_json("mfss", "--messages", 1, "--reductions", "symmetry", *LITTLE)["points"]
    assert point["reductions"] == ["symmetry"]
    (point,) = as_json("fifo:on_gap=skip", "--processes", 2, "--messages", 1, "--lost", 1, *LITTLE)["points"]
    assert point["lost"] == 1


def test_all_may_be_searched_whatever_breaks() -> None:
    """Lamport's order with the fourth rule to the letter, as the chapter has it: everybody gets every message."""
    bound = ["--messages", 1, "--to-self", "--broadcast", "--no-reductions", "--property", "none", *LITTLE]
    (literal,) = as_json("lamport-literal", *bound)["points"]
    assert literal["complete"]
    broken = {name for name, one in literal["verdicts"].items() if not one["ok"]}
    assert broken == {"causal", "consistent", "total"}
    (lamport,) = as_json("lamport", *bound)["points"]
    assert lamport["complete"]
    assert all(one["ok"] for name, one in lamport["verdicts"].items() if name != "genuine")
    assert "to given destinations" in run("lamport", *bound).stdout


def test_random_executions() -> None:
    result = run("cykas", "--walks", 300, "--seed", 7, *LITTLE)
    assert result.exit_code == 0
    assert "300 random executions" in result.stdout
    assert "Kinds of transitions" in result.stdout
    assert "receive eager" in result.stdout
    (point,) = as_json("cykas", "--walks", 300, "--seed", 7, *LITTLE)["points"]
    assert (point["seed"], point["walks"], point["ends"], point["complete"]) == (7, 300, 300, False)
    assert point == as_json("cykas", "--walks", 300, "--seed", 7, *LITTLE)["points"][0] | {
        name: point[name] for name in ("seconds", "rate", "searches", "memory_bytes")
    }


# ---- counterexamples ----


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A folder with told.txt and told.json."""
    files = ["--scenario", tmp_path / "told.txt", "--counterexample", tmp_path / "told.json"]
    result = run("cykas-telling", "--messages", 2, *files, *LITTLE)
    assert result.exit_code == 1
    assert result.stderr.count("wrote") == 2
    return tmp_path


def test_a_counterexample_becomes_a_scenario_file(told: Path) -> None:
    written = (told / "told.txt").read_text()
    scenario = load(told / "told.txt")
    assert scenario.text == written
    assert scenario.execution.order == "cykas-telling"
    assert len(scenario.title) > 20
    assert "  causal is broken, 1 time:" in written


@pytest.mark.parametrize("name", ["told.txt", "told.json"])
def test_a_counterexample_is_replayed(told: Path, name: str) -> None:
    result = run("--replay", told / name)
    assert result.exit_code == 1
    assert "> alice" in result.stdout
    assert "causal is broken" in result.stdout
    assert as_json("--replay", told / name, code=1)["ok"] is False


def test_what_breaks_nothing_any_more_is_replayed_too(told: Path) -> None:
    example = Counterexample.from_json((told / "told.json").read_text())
    (told / "other.json").write_text(example.to_json().replace("cykas-telling", "cykas"))
    result = run("--replay", told / "other.json")
    assert result.exit_code == 0
    assert "Nothing of this is broken any more" in result.stdout
    (told / "other.txt").write_text("# two words\norder none: p q\n> p sends m1 to q\n> everything arrives\n")
    assert run("--replay", told / "other.txt").exit_code == 0


def test_a_counterexample_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "told.svg"
    assert run("cykas-telling", "--messages", 2, "--diagram", path, *LITTLE).exit_code == 1
    text = path.read_text()
    for word in ("alice", "bob", "carol", "eager", "cykas-telling: 9 steps"):
        assert word in text


def test_without_a_violation_no_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "told.txt"
    result = run("mfss", "--messages", 1, "--scenario", path, *LITTLE)
    assert result.exit_code == 0
    assert not path.exists()
    assert "was not written" in result.stderr


# ---- tables ----


def test_table_1_stands_beside_the_figures_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a smaller bound: the paper's takes minutes."""
    little = [
        bounds.Paper(one.name, bounds.Bound(one.bound.order, 3, 2, breaks=one.bound.breaks), 1, 1, 1, 1)
        for one in bounds.TABLE_1
    ]
    monkeypatch.setattr("busq.commands.check_tables.TABLE_1", little)
    monkeypatch.setattr("busq.commands.check_tables.RATE", bounds.Bound("cykas", 3, 1))
    result = run("--table1", "--memory", "256MiB")
    assert result.exit_code == 0, result.output
    for word in ("MFSS", "Cykas", "holds", "causal broken in 9 steps", "states per second and core"):
        assert word in " ".join(result.stdout.split())
    found = as_json("--table1", "--memory", "256MiB")
    assert [point["order"] for point in found["points"]] == ["mfss", "cykas-telling", "cykas"]
    assert all(set(point) >= FIGURES and "paper" in point for point in found["points"])
    assert found["ok"] is True
    assert found["rate"]["states_per_s_and_core"] > 0


def test_the_table_of_orders_is_printed_as_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    little = (bounds.Bound("none", 2, 2, unreduced=(2, 1)), bounds.Bound("sync-naive", 2, 1, breaks=True))
    monkeypatch.setattr("busq.commands.check_tables.ORDERS", little)
    result = run("--all", "--markdown", *LITTLE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("| order | bound |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| `none`", "| `sync-naive`"]
    assert "(2 x 1)" in lines[2]
    assert "lost" in lines[3]


def test_every_order_stands_in_the_table_of_orders() -> None:
    assert {parse(one.order)[0].name for one in bounds.ORDERS} == set(ORDERS)
    assert all(one.breaks is ORDERS[parse(one.order)[0].name].laboratory for one in bounds.ORDERS)


def test_the_rate_of_the_paper_is_computed_from_its_table() -> None:
    """Table 1: 1,945 million unique states in 709 s on 96 threads."""
    assert round(bounds.PAPER_RATE) == 28_576


# ---- complaints ----


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "expected one of ORDER, --replay, --table1 and --all"),
        (["mfss", "--table1"], "not ORDER and --table1"),
        (["sky"], "expected one of none"),
        (["mfss", "--processes", 9], "processes is 9: expected 2 to 8"),
        (["mfss", "--messages", 0], "messages is 0: expected 1"),
        (["mfss", "--fan-out", 2], "mfss is point to point"),
        (["mfss", "--lost", 1], "mfss would wait for what is lost"),
        (["mfss", "--memory", "10kB"], "memory is 10240: expected bytes"),
        (["mfss", "--memory", "much"], "expected bytes, like"),
        (["mfss", "--memory", "1000000GiB"], "the machine has"),
        (["mfss", "--property", "beauty"], "'beauty' is none"),
        (["mfss", "--reductions", "luck"], "'luck' is none"),
        (["mfss", "--reductions", "symmetry", "--no-reductions"], "exclude each other"),
        (["mfss", "--walks", 0], "walks is 0"),
        (["mfss", "--search", "depth", "--walks", 5], "search is 'depth'"),
        (["mfss", "--seconds", -1], "seconds is -1"),
        (["mfss", "--seconds", "nan"], "seconds is nan"),
        (["mfss", "--application", "dance"], "'dance' is not one of"),
        (["mfss", "--markdown"], "--markdown is for"),
        (["mfss", "--scenario", "/nowhere/at/all.txt"], "no directory that can be written to"),
        (["mfss", "--scenario", "/"], "is a directory"),
        (["mfss", "--counterexample", "/nowhere/at/all.json"], "no directory that can be written to"),
        (["mfss", "--diagram", "picture.bmp"], "expected a name that ends in"),
        (["--replay", "/nowhere/at/all.json"], "/nowhere/at/all.json: No such file"),
        (["--replay", "/"], "/: Is a directory"),
    ],
)
def test_a_complaint_is_one_line(arguments: list[Any], complaint: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize("text", ["{", "{}", '{"format": "busq execution 1"}', "nonsense", "", "\x00\xff"])
def test_a_broken_file_is_not_replayed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(text.encode("latin-1"))
    result = run("--replay", path)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert len(result.stderr.splitlines()) == 1


# ---- how it ends ----


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "busq", "check", *arguments]
    return subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def n_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def test_ctrl_c_prints_what_was_seen_until_then() -> None:
    process = start("cykas", "--messages", "4", "--memory", "128MiB", "--threads", "2", "--json")
    try:
        wait_until(lambda: n_threads(process.pid) > 2, what="the search")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    (point,) = json.loads(out)["points"]
    assert not point["complete"]
    assert point["unexplored"] == "it was interrupted"
    assert errors == ""


def test_a_search_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    process = start("cykas", "--messages", "4", "--memory", "64MiB", "--scenario", str(tmp_path / "told.txt"))
    try:
        wait_until(lambda: n_threads(process.pid) > 2, what="the search")
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    mine = {name for name in set(os.listdir("/dev/shm")) - before if str(process.pid) in name}
    assert mine == set()


def test_nothing_is_printed_on_stderr_while_it_is_no_terminal() -> None:
    process = start("cykas", "--messages", "2", "--memory", "128MiB")
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "HOLDS" in out
