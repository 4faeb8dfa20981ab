# SPDX-License-Identifier: Apache-2.0
"""Does the harness notice? Peers with planted faults: each must be reported as what it is, and stop nothing else."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import PATIENCE_S, run_command

from busq.bench import case_run, loops, plan, report, required, runner, versions
from busq.bench.peers import ADAPTERS, Adapter, Endpoint
from busq.bench.peers.standard import QueueAdapter, SimpleQueueAdapter
from busq.bench.plan import WORKLOADS, Case
from busq.orders import ORDERS

pytestmark = pytest.mark.slow

SECONDS = 0.05


class Faulty(SimpleQueueAdapter):
    """A working peer whose first `recv` is followed by a fault: on a loaded machine there may be few others."""

    name = "faulty"

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = super().open(shared, case, me)
        if me in shared:
            endpoint.names |= {"state": {"count": 0}, "sleep": time.sleep, "die": lambda: os._exit(7)}
            endpoint.recv += f"\nstate['count'] += 1\nif state['count'] == 1:\n    {self.fault}"
        return endpoint


def measure(
    workload: str, adapter: Adapter, size_bytes: int = 64, patience_s: float = case_run.GRACE_SECONDS
) -> case_run.Outcome:
    """One short measurement."""
    return case_run.measure(Case(WORKLOADS[workload], adapter.name, size_bytes), adapter, SECONDS, patience_s)


def test_a_sound_peer_loses_nothing() -> None:
    outcome = measure("one_to_one", QueueAdapter())
    assert outcome["status"] == "ok"
    assert outcome["lost"] == 0
    assert outcome["messages"] > 0
    assert outcome["rate_per_s"] == pytest.approx(outcome["messages"] / outcome["seconds"])


def test_a_lost_message_is_counted() -> None:
    outcome = measure("one_to_one", Faulty("data = get()"))
    assert outcome["status"] == "ok"
    assert outcome["lost"] == 1


@pytest.mark.parametrize(
    "fault",
    ["data = data[:-1]", "data = b'\\x05' + data[1:]", "data = data[:40] + b'?' + data[41:]"],
    ids=["shorter", "of another kind", "with one byte changed"],
)
@pytest.mark.parametrize("workload", ["one_to_one", "fan_in", "ping_pong"])
def test_a_wrong_message_fails_the_case(workload: str, fault: str) -> None:
    outcome = measure(workload, Faulty(fault))
    assert outcome["status"] == "failed"
    assert "WrongMessageError" in outcome["reason"]


def test_a_wrong_large_message_fails_the_case() -> None:
    outcome = measure("one_to_one", Faulty("data = data[:-1]"), 65536)
    assert outcome["status"] == "failed"
    assert "WrongMessageError" in outcome["reason"]


def test_a_wrong_message_in_a_window_fails_the_case() -> None:
    outcome = measure("all_to_all", Faulty("data = data[:-1]"))
    assert outcome["status"] == "failed"
    assert "WrongMessageError" in outcome["reason"]


def test_a_process_that_dies_fails_the_case() -> None:
    outcome = measure("one_to_one", Faulty("die()"))
    assert outcome["status"] == "failed"
    assert "process 1 died in 'go'" in outcome["reason"]


def test_a_peer_that_hangs_is_killed() -> None:
    before = set(psutil.Process().children())
    outcome = measure("one_to_one", Faulty("sleep(100_000)"), patience_s=1.0)
    assert outcome["status"] == "hung"
    assert multiprocessing.active_children() == []
    assert set(psutil.Process().children()) <= before


def test_busy_processes_share_the_cores_with_a_case_as_equals() -> None:
    # The kernel may give each session the same share of the cores, whatever runs in it.
    outcome = case_run.in_child(lambda: {"session": os.getsid(0), "group": os.getpgid(0), "pid": os.getpid()}, 60.0)
    assert outcome["session"] == os.getsid(0)
    assert outcome["group"] == outcome["pid"]


def test_a_peer_that_hangs_is_tried_twice_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_patiently = case_run.measure

    def measure(case: Case, adapter: Adapter, seconds: float, patience_s: float) -> case_run.Outcome:
        return measure_patiently(case, adapter, seconds, 0.5 if case.peer == "faulty" else PATIENCE_S)

    monkeypatch.setattr(case_run, "measure", measure)
    monkeypatch.setitem(ADAPTERS, "faulty", Faulty("sleep(1000)"))
    result = runner.run(["faulty", "mp.Queue"], ["one_to_one"], [64], repeats=4, seconds=SECONDS)
    faulty, queue = (point for point in result["points"] if point["status"] != "refused")
    assert (faulty["status"], faulty["failures"]) == ("failed", runner.HANGS_MAX)
    assert "killed" in faulty["reason"]
    assert (queue["status"], len(queue["rate_per_s_repeats"])) == ("ok", 4)
    assert any("faulty one_to_one 64 B: 2 measurements failed" in text for text in report.remarks(result))


def test_queues_without_an_order_are_seen_as_such() -> None:
    orders = [measure("all_to_all", QueueAdapter())["same_order"] for _ in range(3)]
    assert not all(orders)


def test_a_message_of_nobody_is_refused() -> None:
    with pytest.raises(loops.WrongMessageError):
        loops.Ledger(1).note(b"")


def test_two_windows_of_all_senders_fit_every_queue() -> None:
    for size_bytes in plan.SIZES_BYTES:
        case = Case(WORKLOADS["all_to_all"], "any", size_bytes)
        assert 2 * 4 * case.window <= case.depth
        assert 2 * 4 * case.window * (size_bytes + 8) <= case.queue_bytes


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"peers": ["nobody"]}, "unknown peer 'nobody'"),
        ({"workloads": ["none"]}, "unknown workload 'none'"),
        ({"sizes": [1]}, "size 1 B"),
        ({"sizes": [2 << 20]}, "size 2097152 B"),
        ({"repeats": 0}, "repeats 0"),
        ({"seconds": 0.0}, "seconds 0.0"),
        ({"seconds": float("nan")}, "seconds nan"),
    ],
)
def test_what_can_not_be_measured_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        runner.run(**arguments)


# ---- the verdict on figures that are known ----


def point(peer: str, workload: str, value: float, **parameters: Any) -> dict[str, Any]:
    """A measured point, as `run` makes it."""
    metric = WORKLOADS[workload].metric
    defaults = {"size_bytes": 64, "calls": 1, "busy": 0, "status": "ok", "repeats": [0], "ordered": peer == "busq"}
    named = {"peer": peer, "workload": workload, metric: value, f"{metric}_repeats": [value], "spread": 1.0}
    return named | defaults | parameters


def verdict(points: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """The line that `text` names."""
    (found,) = [line for line in required.judge(points) if line["line"] == text]
    return found


@pytest.mark.parametrize(("ours", "met"), [(11.9, False), (12.0, True)])
def test_a_rate_must_be_at_least_the_required_ratio(ours: float, met: bool) -> None:
    points = [point("busq", "one_to_one", ours * 1e5), point("mp.Queue", "one_to_one", 1e5)]
    line = verdict(points, "busq one_to_one 64 B against mp.Queue")
    assert (line["measured"], line["met"]) == (pytest.approx(ours), met)


@pytest.mark.parametrize(("ours", "met"), [(11.4, True), (11.6, False)])
def test_a_time_must_be_at_most_the_required_ratio(ours: float, met: bool) -> None:
    points = [point("busq", "ping_pong_asleep", ours), point("c-floor", "ping_pong_asleep", 10.0)]
    assert verdict(points, "busq ping_pong_asleep 64 B against c-floor")["met"] is met


@pytest.mark.parametrize(("ours_us", "met"), [(1.19, True), (1.2, False)])
def test_a_line_without_a_peer_bounds_the_figure_itself(ours_us: float, met: bool) -> None:
    line = verdict([point("busq", "ping_pong", ours_us)], "busq ping_pong 64 B")
    assert (line["measured"], line["met"]) == (ours_us, met)


def test_a_line_may_compare_two_workloads() -> None:
    points = [point("busq-c", "all_to_all", 11e6), point("c-floor", "one_to_one", 20e6)]
    assert verdict(points, "busq-c all_to_all 64 B against c-floor one_to_one")["measured"] == pytest.approx(0.55)


def test_a_line_whose_figures_are_missing_is_neither_met_nor_missed() -> None:
    assert {line["met"] for line in required.judge([])} == {None}


def test_growth_is_judged_between_the_shallowest_and_the_deepest_queue() -> None:
    points = [
        point("busq-c", "depth", cost_ns, waiting=waiting, stale=True)
        for waiting, cost_ns in ((10, 50.0), (10**6, 350.0))
    ]
    line = verdict(points, "busq-c depth, 1,000,000 waiting against 10, proposals lost")
    assert (line["measured"], line["met"]) == (7.0, False)


@pytest.mark.parametrize(
    ("fault", "sound"),
    [({}, True), ({"lost": 1}, False), ({"failures": 1}, False), ({"same_order": 0}, False), ({"same_order": 1}, True)],
)
def test_a_run_passes_only_if_busq_did_what_it_claims(fault: dict[str, Any], sound: bool) -> None:
    ours = point("busq", "all_to_all", 1e6, **fault)
    assert required.passed({"points": [ours], "lines": []}) is sound


def test_a_run_does_not_pass_with_a_line_that_was_missed() -> None:
    assert not required.passed({"points": [], "lines": [{"met": False}]})
    assert required.passed({"points": [], "lines": [{"met": True}, {"met": None}]})


def test_ratios_are_of_medians_and_show_the_spread_within_repeats() -> None:
    ours = point("busq", "one_to_one", 3.0, rate_per_s_repeats=[2.0, 3.0, 8.0], repeats=[0, 1, 2])
    theirs = point("hyperq", "one_to_one", 2.0, rate_per_s_repeats=[2.0, 2.0], repeats=[0, 2])
    (ratio,) = runner.ratios([ours, theirs])
    assert (ratio["ratio"], ratio["ratio_min"], ratio["ratio_max"]) == (1.5, 1.0, 4.0)


def test_round_trips_are_better_when_they_are_shorter() -> None:
    (ratio,) = runner.ratios([point("busq", "ping_pong", 0.5), point("mp.Pipe", "ping_pong", 10.0)])
    assert ratio["ratio"] == 20.0


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No process, no file in shared memory."""
    token = f"bqb{os.getpid()}x"
    yield
    assert not [name for name in os.listdir("/dev/shm") if token in name]


@pytest.mark.parametrize("peer", [name for name, adapter in ADAPTERS.items() if adapter.missing() is None])
def test_every_peer_that_is_here_works(peer: str) -> None:
    result = runner.run([peer], sizes=[64, 65536], repeats=1, seconds=SECONDS, workloads=SHORT)
    failed = [(point["workload"], point["reason"]) for point in result["points"] if point["status"] == "failed"]
    assert failed == []
    assert [point for point in result["points"] if point.get("lost")] == []


SHORT = [
    name for name, w in WORKLOADS.items() if w.kind != "depth" and not w.by_name and (not w.work_us or "300" in name)
]


@pytest.mark.parametrize("workload", [name for name, workload in WORKLOADS.items() if workload.by_name])
def test_many_receivers_are_measured_where_they_are_asked_for(workload: str) -> None:
    (found,) = runner.run(["busq"], [workload], repeats=1, seconds=SECONDS)["points"]
    assert (found["status"], found["lost"], found["processes"]) == ("ok", 0, WORKLOADS[workload].processes)
    assert found.get("same_order", 1) == 1


def test_what_waits_awake_is_measured_in_a_crowd_too() -> None:
    result = runner.run(["busq"], ["ping_pong", "ping_pong_asleep"], repeats=1, seconds=SECONDS, busy=2)
    assert [(found["workload"], found["busy"], found["status"]) for found in result["points"]] == [
        ("ping_pong", 0, "ok"),
        ("ping_pong", 2, "ok"),
        ("ping_pong_asleep", 0, "ok"),
    ]
    assert list(report.percentiles_table(result).columns[0].cells) == ["busq", "  beside 2 busy"]


def test_what_a_neighbour_disturbed_is_marked() -> None:
    calm, shaken = point("busq", "one_to_one", 3e6), point("hyperq", "one_to_one", 2e6, spread=1.6)
    (table,) = report.figures_tables({"points": [calm, shaken]})
    assert list(table.columns[1].cells) == ["3M", "~2M"]
    assert report.remarks({"points": [calm]}) == []
    assert report.remarks({"points": [shaken]})[0].startswith("~: disturbed")


def test_a_crowd_is_gone_when_it_is_not_needed() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    before = children()
    with case_run.crowd(3):
        assert len(children() - before) == 3
    assert children() == before


# ---- other work beside messages ----


@pytest.mark.parametrize("workload", ["sender_works_300ns", "receiver_works_300ns", "bursts_300ns", "balanced_0ns"])
def test_a_regime_counts_what_a_message_costs_above_the_work(workload: str) -> None:
    outcome = measure(workload, QueueAdapter())
    assert (outcome["status"], outcome["lost"]) == ("ok", 0)
    whole_ns = outcome["seconds"] * 1e9 / outcome["messages"]
    assert outcome["ns_above_work"] == pytest.approx(max(whole_ns - outcome["own_ns"], 1.0))


@pytest.mark.parametrize("workload", ["receiver_works_300ns", "bursts_300ns"])
def test_a_wrong_message_fails_a_regime(workload: str) -> None:
    outcome = measure(workload, Faulty("data = data[:-1]"))
    assert outcome["status"] == "failed"
    assert "WrongMessageError" in outcome["reason"]


def test_the_side_that_a_regime_names_has_the_work() -> None:
    def turns(workload: str) -> list[int]:
        case = Case(WORKLOADS[workload], "busq", 64)
        return [loops.work_turns(case, side) for side in (0, 1)]

    loops.turn_ns()
    (sender, none), (nothing, receiver), both = map(
        turns, ("sender_works_1000ns", "receiver_works_1000ns", "balanced_1000ns")
    )
    assert none == nothing == 0
    assert both == [sender, receiver]
    assert sender == receiver > 0
    assert turns("bursts_1000ns")[0] == pytest.approx(plan.BURST * sender, rel=0.1)


def test_regimes_are_measured_where_peers_are_compared() -> None:
    listed = plan.cases(["busq", "mp.Queue", "hyperq"], ["balanced_0ns"], busy=2)
    assert [(case.peer, case.busy) for case in listed] == [("busq", 0), ("hyperq", 0), ("busq", 2), ("hyperq", 2)]
    usual = lambda *peers: {name for name in runner.usual(peers) if WORKLOADS[name].work_us}  # noqa: E731
    assert usual("busq", "busq-c") == set()
    assert usual("busq", "hyperq") == {regime.name for regime in plan.REGIMES}


def test_regimes_have_a_table_of_their_own() -> None:
    points = [
        point("busq", "one_to_one", 3e6),
        point("busq", "bursts_300ns", 120.0, own_ns=400.0),
        point("hyperq", "bursts_300ns", 240.0, own_ns=410.0, spread=1.6),
        point("busq", "bursts_300ns", 500.0, own_ns=430.0, busy=4),
    ]
    table = report.regimes_table({"points": points})
    assert [list(column.cells) for column in table.columns] == [
        ["bursts_300ns", "  beside 4 busy"],
        ["400", "430"],
        ["120", "500"],
        ["~240", ""],
    ]
    (figures,) = report.figures_tables({"points": points})
    assert len(figures.columns) == 2
    assert verdict(points, "busq bursts_300ns 64 B against hyperq")["met"] is True


# ---- orders ----


def test_orders_are_measured_and_compared_with_bus1() -> None:
    result = runner.run_orders(["fifo", "lamport"], ["one_to_one", "all_to_all"], repeats=1, seconds=SECONDS)
    points = {(point["order"], point["workload"]): point for point in result["points"]}
    assert set(points) == {(order, w) for order in ("fifo", "lamport", "bus1") for w in ("one_to_one", "all_to_all")}
    assert [point.get("reason") for point in points.values() if point["status"] != "ok"] == []
    assert {point["size_bytes"] for point in points.values()} == {64}
    assert all(not point.get("lost") for point in points.values())
    assert (points["fifo", "all_to_all"]["ordered"], points["lamport", "all_to_all"]["ordered"]) == (False, True)
    assert points["lamport", "all_to_all"]["same_order"] == 1
    assert {(ratio["peer"], ratio["workload"]) for ratio in result["ratios"]} == set(points) - {
        ("bus1", "one_to_one"),
        ("bus1", "all_to_all"),
    }
    assert required.passed(result)


@pytest.mark.parametrize("workload", plan.ORDER_WORKLOADS)
def test_every_order_goes_through_every_workload(workload: str) -> None:
    fit = [name for name, order in ORDERS.items() if not order.laboratory]
    result = runner.run_orders(fit, [workload], repeats=1, seconds=SECONDS / 5)
    assert {point["order"] for point in result["points"]} == set(fit)
    assert [(point["order"], point["reason"]) for point in result["points"] if point["status"] != "ok"] == []
    assert [point for point in result["points"] if point.get("lost")] == []
    assert [point for point in result["points"] if not required.in_order(point)] == []


def test_a_ratio_says_how_far_bus1_is_ahead() -> None:
    points = [
        point("bus1", "one_to_one", 6.0, order="bus1"),
        point("fifo", "one_to_one", 2.0, order="fifo"),
        point("bus1", "ping_pong", 2.0, order="bus1"),
        point("fifo", "ping_pong", 10.0, order="fifo"),
    ]
    ratios = runner.ratios(points, "bus1")
    assert [(ratio["peer"], ratio["workload"], ratio["ratio"]) for ratio in ratios] == [
        ("fifo", "one_to_one", 3.0),
        ("fifo", "ping_pong", 5.0),
    ]


@pytest.mark.parametrize("fault", [{"lost": 1}, {"failures": 1}, {"ordered": True, "same_order": 0}])
def test_a_run_passes_only_if_every_order_did_what_it_claims(fault: dict[str, Any]) -> None:
    assert not required.passed({"points": [point("skeen", "all_to_all", 1e6, order="skeen", **fault)], "lines": []})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"orders": ["best"]}, "best"),
        ({"orders": ["fifo"], "workloads": ["depth"]}, "workloads depth: orders are measured under one_to_one, "),
        ({"orders": ["fifo"], "repeats": 0}, "repeats 0"),
    ],
)
def test_what_orders_can_not_be_measured_by_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        runner.run_orders(**arguments)


def test_orders_are_printed_drawn_and_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["bench", "--orders", "fifo,skeen", "--workloads", "ping_pong,fan_out", "--output", str(tmp_path)]
    result = run_command(*arguments, "--repeats", "1", "--seconds", SECONDS)
    assert result.exit_code == 0
    assert "bus1 is so many times ahead" in " ".join(result.stdout.split())
    found = json.loads((tmp_path / "busq-orders.json").read_text())
    assert {point["order"] for point in found["points"]} == {"fifo", "skeen", "bus1"}
    assert {ratio["peer"] for ratio in found["ratios"]} == {"fifo", "skeen"}
    assert (tmp_path / "busq-orders.png").read_bytes().startswith(b"\x89PNG")
    assert result.stderr == f"wrote {tmp_path}/busq-orders.json\nwrote {tmp_path}/busq-orders.png\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--orders", "all", "--peers"], "--peers, --order, --orders, --compare and --bridge exclude each other"),
        (["--bridge", "--sizes", "64"], "--bridge has workloads and sizes of its own"),
        (["--orders", "best"], "Invalid value for '--orders': "),
        (["--order", "fifo", "--workloads", "depth"], "orders are measured under one_to_one, "),
    ],
)
def test_what_the_command_can_not_measure_is_refused_in_one_line(arguments: list[str], text: str) -> None:
    result = run_command("bench", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_two_installations_are_measured_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    result = versions.compare(sys.prefix, sys.executable, ["one_process"], repeats=3, seconds=0.01)
    points = {point["size_bytes"]: point for point in result["points"]}
    assert set(points) == {64, 1024}
    assert all(len(point["ratio_repeats"]) == 3 for point in points.values())
    mean = result["geometric_mean"]
    assert mean["ratio"] == pytest.approx((points[64]["ratio"] * points[1024]["ratio"]) ** 0.5)
    assert mean["ratio_low"] <= mean["ratio"] <= mean["ratio_high"]
    versions.print_comparison(result)
    assert "geometric mean" in capsys.readouterr().out


def test_the_command_compares_installations_too() -> None:
    arguments = ["bench", "--compare", sys.prefix, sys.executable, "--workloads", "one_process", "--repeats", "2"]
    result = run_command(*arguments, "--seconds", "0.01", "--json")
    assert result.exit_code == 0
    assert {found["workload"] for found in json.loads(result.stdout)["points"]} == {"one_process"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--workloads", "nonsense"], "unknown workload 'nonsense'; there are one_process, one_to_one, "),
        (["--seconds", "0"], "repeats 5, seconds 0.0: expected"),
        (["--sizes", "64"], "--compare takes each workload at its own sizes"),
        (["--busy", "4"], "--busy is for --peers"),
    ],
)
def test_a_comparison_that_can_not_be_is_refused_in_one_line(arguments: list[str], text: str) -> None:
    result = run_command("bench", "--compare", sys.prefix, sys.executable, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_what_is_no_installation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a virtual environment or an interpreter"):
        versions.compare(str(tmp_path), sys.executable)
    with pytest.raises(ValueError, match=r"expected an environment with busq\[bench\] installed"):
        versions.compare(shutil.which("false") or "", sys.executable)
