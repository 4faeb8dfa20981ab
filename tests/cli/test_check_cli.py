# SPDX-License-Identifier: Apache-2.0
"""`busq check` as its users see it: text, JSON, files, exit codes and complaints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import PATIENCE_S, TESTS, command_json, run_command, wait_until

from busq.check import Counterexample, Interrupted
from busq.check import run as check
from busq.lab.check import bounds
from busq.lab.check.vacuous import Sends, vacuous
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


run = partial(run_command, "check")
as_json = partial(command_json, "check")


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
    result = run("fifo", "--messages", 2, "--property", "fifo,causal", *LITTLE)
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
    (point,) = as_json("mfss", "--messages", "0,2,1", *LITTLE)["points"]
    assert (point["messages"], point["messages_each"]) == (2, [0, 2, 1])
    assert "3 processes with 0 + 2 + 1 messages" in run("mfss", "--messages", "0,2,1", *LITTLE).stdout
    (point,) = as_json("fifo:on_gap=skip", "--processes", 2, "--messages", 1, "--lost", 1, *LITTLE)["points"]
    assert point["lost"] == 1


def test_the_network_that_was_searched_is_told() -> None:
    bound = ["--processes", 2, "--messages", 2, *LITTLE]
    for order, needed in (("sequencer", "fifo"), ("skeen", "unordered")):
        (point,) = as_json(order, *bound)["points"]
        assert (point["network"], point["holds"]) == (needed, True)
    (point,) = as_json("sequencer", *bound, "--network", "unordered", code=1)["points"]
    assert (point["network"], point["holds"]) == ("unordered", False)
    assert point["counterexample"]["network"] == "unordered"
    assert point["verdicts"]["fifo"] == {"ok": False, "claimed": False, "judged": True}
    printed = run("sequencer", *bound, "--network", "unordered").stdout
    assert "the network reorders" in printed
    assert "sequencer promises nothing where channels do not keep the order" in printed
    assert "channels keep the order" in run("sequencer", *bound).stdout


def test_all_may_be_searched_whatever_breaks() -> None:
    """Lamport's order with the fourth rule to the letter, as the chapter has it: all processes get every message."""
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
    """A folder with `told.txt` and `told.json`."""
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


def replayed(told: Path, found: str, replacement: str, code: int) -> Result:
    """A replay of `told.json` with one thing changed."""
    text = (told / "told.json").read_text()
    assert found in text
    (told / "other.json").write_text(text.replace(found, replacement))
    result = run("--replay", told / "other.json")
    assert result.exit_code == code, result.output
    return result


def test_what_breaks_nothing_any_more_is_replayed_too(told: Path) -> None:
    result = replayed(told, '["causal"]', '["phantom"]', 0)
    assert "phantom is not broken any more" in result.stdout
    assert "Nothing of this is broken any more" in result.stdout
    assert as_json("--replay", told / "other.json")["ok"] is True
    (told / "other.txt").write_text("# two words\norder none: p q\n> p sends m1 to q\n> everything arrives\n")
    assert run("--replay", told / "other.txt").exit_code == 0


def test_of_two_faults_each_has_its_own_answer(told: Path) -> None:
    result = replayed(told, '["causal"]', '["causal", "phantom"]', 1)
    assert "causal is broken:" in result.stdout
    assert "phantom is not broken any more" in result.stdout
    assert as_json("--replay", told / "other.json", code=1)["broken"] == {"causal": True, "phantom": False}


def test_steps_that_cannot_be_played_show_nothing(told: Path) -> None:
    result = replayed(told, '"cykas-telling"', '"bus1"', 2)
    assert "It cannot be played on the code as it is now: step 5, receive" in result.stderr
    assert "broken any more" not in result.output
    assert as_json("--replay", told / "other.json", code=2)["ok"] is None


def test_a_counterexample_that_was_kept_becomes_a_scenario_later(told: Path) -> None:
    result = run("--replay", told / "told.json", "--scenario", told / "later.txt")
    assert result.exit_code == 1
    assert (told / "later.txt").read_text() == (told / "told.txt").read_text()
    result = run("--replay", told / "told.txt", "--scenario", told / "later.txt")
    assert result.exit_code == 2
    assert "--scenario is for a counterexample" in result.stderr


def test_the_scenario_of_something_stuck_says_so_when_it_is_played(tmp_path: Path) -> None:
    path = tmp_path / "stuck.txt"
    bound = ["--processes", 2, "--messages", 1, "--doubled", 1, "--property", "stuck"]
    assert run("skeen", *bound, "--scenario", path, *LITTLE).exit_code == 1
    text = path.read_text()
    assert text.rstrip().endswith("goes on holding something back")
    assert "verdict" not in text
    result = run("--replay", path)
    assert result.exit_code == 1
    assert "Nothing can happen any more, but" in result.stdout


def test_a_file_that_cannot_be_written_loses_nothing_else(tmp_path: Path) -> None:
    good = tmp_path / "told.json"
    files = ["--scenario", "/dev/full", "--counterexample", good]
    result = run("cykas-telling", "--messages", 2, *files, *LITTLE)
    assert result.exit_code == 1
    assert "VIOLATION: causal" in result.stdout
    assert "busq: /dev/full: No space left on device" in result.stderr
    assert Counterexample.from_json(good.read_text()).faults == ("causal",)


@pytest.mark.parametrize("how", ["full", "closed"])
def test_a_result_that_cannot_be_printed_is_still_written(tmp_path: Path, how: str) -> None:
    good = tmp_path / "told.json"
    command = [sys.executable, "-m", "busq", "check", "cykas-telling", "--messages", "2", "--counterexample", str(good)]
    reader, writer = os.pipe() if how == "closed" else (-1, os.open("/dev/full", os.O_WRONLY))
    if how == "closed":
        os.close(reader)
    try:
        done = subprocess.run(
            [*command, *LITTLE],
            cwd=TESTS,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert Counterexample.from_json(good.read_text()).faults == ("causal",)


def test_a_counterexample_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "told.svg"
    assert run("cykas-telling", "--messages", 2, "--diagram", path, *LITTLE).exit_code == 1
    text = path.read_text()
    for word in ("alice", "bob", "carol", "eager", "cykas-telling: 9 steps"):
        assert word in text


def test_what_was_not_seen_is_not_said_to_hold() -> None:
    result = run("cykas", "--memory", "2MiB")
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["lost"][1:4] == ["yes", "so", "far"]
    result = run("fifo:on_gap=skip", "--processes", 2, "--messages", 2, "--lost", 1, *LITTLE)
    assert "HOLDS" in result.stdout
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["lost"][1:3] == ["no", "all"]


def test_doubled_packets_are_no_promise_of_every_order() -> None:
    bound = ["--processes", 2, "--messages", 1, "--doubled", 1, *LITTLE]
    result = run("cykas", *bound)
    assert result.exit_code == 0
    assert "cykas promises nothing where packets are doubled" in result.stdout
    assert "broken in some: duplicated" in result.stdout
    assert "promises nothing" not in run("fifo", *bound).stdout
    assert run("cykas", *bound, "--property", "duplicated").exit_code == 1


def test_random_executions_that_were_cut_short_say_so() -> None:
    result = run("lamport", "--processes", 5, "--messages", 4, "--walks", 10**8, "--seconds", 0.2, *LITTLE)
    assert " of 100,000,000 random executions" in result.stdout
    assert "the time was over (0.2 s)" in result.stdout
    result = run("lamport", "--processes", 5, "--messages", 4, "--walks", 5, "--depth", 50, *LITTLE)
    assert "5 of them were cut off after 50 steps" in result.stdout


def test_what_is_stuck_is_told_below_its_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "stuck.svg"
    bound = ["--processes", 2, "--messages", 1, "--doubled", 1, "--property", "stuck"]
    assert run("skeen", *bound, "--diagram", path, *LITTLE).exit_code == 1
    assert "goes on holding something back" in path.read_text()


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
    monkeypatch.setattr("busq.cli.check_tables.TABLE_1", little)
    monkeypatch.setattr("busq.cli.check_tables.RATE", bounds.Bound("cykas", 3, 1))
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
    monkeypatch.setattr("busq.cli.check_tables.ORDERS", little)
    result = run("--all", "--markdown", *LITTLE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("| order | bound |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| `none`", "| `sync-naive`"]
    assert "(2 x 1)" in lines[2]
    assert "lost" in lines[3]


def test_a_table_that_is_interrupted_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busq.cli.check_tables.ORDERS", [bounds.Bound("none", 2, 1)] * 3)
    searched: list[bool] = []

    def search(order: str, *bound: int, reductions: tuple[str, ...], **options: Any) -> Any:
        found = check(order, *bound, reductions=reductions, **options)
        searched.append(not reductions)
        if len(searched) == 4:
            raise Interrupted(replace(found, complete=False))
        return found

    monkeypatch.setattr("busq.cli.check_tables.run", search)
    result = run("--all", *LITTLE)
    assert result.exit_code == 130
    assert "interrupted: 2 of 3 rows" in result.stdout
    searched.clear()
    found = as_json("--all", *LITTLE, code=130)
    assert len(found["points"]) == 4
    assert found["complete"] is False
    searched.clear()
    assert len(run("--all", "--markdown", *LITTLE).stdout.splitlines()) == 4


def test_every_order_stands_in_the_table_of_orders() -> None:
    assert {parse(one.order)[0].name for one in bounds.ORDERS} == set(ORDERS)
    assert all(one.breaks is ORDERS[parse(one.order)[0].name].laboratory for one in bounds.ORDERS)


@pytest.mark.parametrize("name", sorted({one.order for one in bounds.ORDERS if not one.breaks}))
def test_whatever_an_order_claims_could_break_at_one_of_its_bounds_in_the_table(name: str) -> None:
    rows = [one for one in bounds.ORDERS if one.order == name]
    out_of_reach = [set(vacuous(Sends(one.processes, one.messages, one.fan_out, one.to_self))) for one in rows]
    assert not set.intersection(*out_of_reach) & parse(name)[0].claims


def test_the_rate_of_the_paper_is_computed_from_its_table() -> None:
    """Table 1: 1,945 million unique states in 709 s on 96 threads."""
    assert round(bounds.PAPER_RATE) == 28_576


# ---- complaints ----


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "expected one of ORDER, --replay, --table1, --all and --lattice"),
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
        (["mfss", "--search", "depth", "--walks", 5], "search is 'depth', and walks are asked for"),
        (["bus1", "--memory", "1M", "--threads", 64], "too little for a search by 64 threads"),
        (["lamport", "--broadcast", "--messages", 10**21], "messages is 1"),
        (["--table1", "--messages", 2], "--messages is not for --table1, --all and --lattice"),
        (["--all", "--scenario", "all.txt"], "--scenario is not for"),
        (["--replay", "told.json", "--processes", 3], "--processes is not for --replay"),
        (["mfss", "--walks", 5, "--reductions", "symmetry"], "random executions know no reductions"),
        (["skeen", "--fan-out", 3], "--fan-out is 3: expected 1 to 2"),
        (["mfss", "--property", "none", "--property", "causal"], "exclude each other"),
        (["mfss", "--processes", 8, "--messages", 5], "--messages is 5: expected 1 to 4, 32 of 8 processes together"),
        (["mfss", "--seed", 5], "--seed is for --walks"),
        (["mfss", "--disk", ""], "--disk is '': expected a directory"),
        (["mfss", "--disk", "/nowhere"], "can be written to (No such file or directory)"),
        (["mfss", "--disk", "/proc"], "--disk is '/proc': expected a directory that files can be written to"),
        (["mfss", "--disk", "/dev/null"], "--disk is '/dev/null': expected a directory"),
        (["mfss", "--disk", ".", "--search", "depth"], "expected auto or breadth with a disk"),
        (["mfss", "--disk", ".", "--disk-space", "5"], "--disk-space is 5: expected 16777216"),
        (["mfss", "--disk-space", "1GiB"], "--disk-space is 1073741824: expected None without a disk"),
        (["--all", "--disk", "."], "--disk is not for"),
        (["groups", "--disk", "."], "--disk is not for groups"),
        (["mfss", "--depth", 5000], "depth is 5000: expected 1 to 2048"),
        (["mfss", "--scenario", ""], "a file needs a name"),
        (["mfss", "--diagram", ""], "a file needs a name"),
        (["mfss", "--scenario", "a.txt", "--counterexample", "./a.txt"], "expected a file of its own for each"),
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
        out, errors = process.communicate(timeout=PATIENCE_S)
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
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    mine = {name for name in set(os.listdir("/dev/shm")) - before if str(process.pid) in name}
    assert mine == set()


def files_without_a_name(pid: int, directory: Path) -> int:
    """How many files of the directory a process has open that nothing leads to."""
    try:
        found = [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return 0
    return sum(one.startswith(f"{directory}/") and one.endswith("(deleted)") for one in found)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_search_on_disk_that_is_ended_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    process = start("cykas", "--messages", "4", "--memory", "4MiB", "--threads", "2", "--disk", str(tmp_path), "--json")
    try:
        wait_until(lambda: files_without_a_name(process.pid, tmp_path) > 5, what="its files")
        assert list(tmp_path.iterdir()) == []
        time.sleep(0.2)
        process.send_signal(how)
        out, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir()) == []
    if how == signal.SIGKILL:
        assert process.returncode == -how
        return
    assert (process.returncode, errors) == (130, "")
    (point,) = json.loads(out)["points"]
    assert point["unexplored"] == "it was interrupted"
    assert point["disk_bytes"] > 0


def test_what_lies_on_disk_is_shown(tmp_path: Path) -> None:
    result = run("mfss", "--messages", 2, "--memory", "2MiB", "--disk", tmp_path, "--disk-space", "1GiB")
    assert result.exit_code == 0, result.output
    assert "HOLDS" in result.stdout
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["disk"][2] == "MiB"
    assert "disk" not in run("mfss", "--messages", 2, *LITTLE).stdout


def test_nothing_is_printed_on_stderr_while_it_is_no_terminal() -> None:
    process = start("cykas", "--messages", "2", "--memory", "128MiB")
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    assert "HOLDS" in out
