# SPDX-License-Identifier: Apache-2.0
"""Histories of Jepsen and Elle: what a correct database does is never broken, and what its reads show is found."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

import busq
from busq import trace
from busq.audit import RunAudit
from busq.trace import TraceError
from busq.trace.edn import BadEdn, forms

Op = dict[str, Any]
ORDERS = ("fifo", "causal", "consistent", "total", "side")


def edn(value: Any, is_word: bool = False) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f":{key} {edn(one, key in ('type', 'f'))}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        its = [
            edn(one, is_first and one in ("append", "r", "w"))
            for is_first, one in zip([True] + [False] * len(value), value, strict=False)
        ]
        return "[" + " ".join(its) + "]"
    if isinstance(value, str) and (is_word or value == "nemesis"):
        return f":{value}"
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)


def history(*operations: tuple[int, str, Any]) -> list[Op]:
    """Operations one after the other: process, how each ended, its micro-operations or (f, value)."""
    found: list[Op] = []
    for process, outcome, what in operations:
        f, value = what if isinstance(what, tuple) else ("txn", what)
        begun = [[one[0], one[1], None if one[0] == "r" else one[2]] for one in value] if f == "txn" else value
        begun = None if f == "read" else begun
        for kind, its in (("invoke", begun), (outcome, value)):
            found.append(
                {"type": kind, "f": f, "value": its, "time": 10 * len(found), "process": process, "index": len(found)}
            )
    return found


def audited(path: Path, operations: list[Op], **asked: Any) -> dict[str, RunAudit]:
    path.write_text("".join(edn(each) + "\n" for each in operations))
    runs = busq.audit.audit(path, **asked).runs
    assert {run.format for run in runs} == {"jepsen"}
    return {run.run.partition("/")[2]: run for run in runs}


def broken(runs: dict[str, RunAudit]) -> set[str]:
    return {name for run in runs.values() for name, check in run.checks.items() if check.verdict == "invalid"}


def kinds(run: RunAudit) -> list[str]:
    return [finding.kind for finding in run.findings if finding.kind != "derived-destinations"]


# ---- a database that does what it should ----


def correct(seed: int, is_list: bool) -> list[Op]:
    """Transactions of a serial database, begun and ended in overlapping ways; some fail, some have no known end."""
    rng = random.Random(seed)
    state: dict[str, list[int]] = {}
    found: list[Op] = []
    under_way: dict[int, Op] = {}
    number, process_of = 0, list(range(4))
    for time in range(rng.randint(10, 120)):
        at = rng.randrange(4)
        process = process_of[at]
        if process not in under_way:
            micros: list[list[Any]] = []
            for _ in range(rng.randint(1, 4)):
                number += 1
                key = rng.choice(["x", "ключ" * 50, "7"])
                micros.append(["r", key, None] if rng.random() < 0.5 else ["append" if is_list else "w", key, number])
            under_way[process] = {"type": "invoke", "f": "txn", "value": micros, "process": process, "time": time}
            found.append(under_way[process])
            continue
        begun = under_way.pop(process)
        outcome = rng.choice(["ok", "ok", "ok", "fail", "info"])
        done = []
        if outcome == "ok" or (outcome == "info" and rng.random() < 0.5):
            for what, key, value in begun["value"]:
                its = state.setdefault(key, [])
                if what == "r":
                    value = list(its) if is_list else (its[-1] if its else None)
                else:
                    its.append(value)
                done.append([what, key, value])
        value = done if outcome == "ok" else begun["value"]
        found.append({"type": outcome, "f": "txn", "value": value, "process": process, "time": time})
        if outcome == "info":
            process_of[at] += 4
        if rng.random() < 0.1:
            found.append(
                {"type": "info", "f": "start-partition", "value": "majority", "process": "nemesis", "time": time}
            )
    return found


@pytest.mark.parametrize("is_list", [True, False], ids=["lists", "registers"])
@pytest.mark.parametrize("seed", range(24))
def test_a_serial_database_breaks_nothing_wherever_its_history_is_cut(tmp_path: Path, seed: int, is_list: bool) -> None:
    operations = correct(seed, is_list)
    for count in (len(operations), len(operations) // 2):
        try:
            runs = audited(tmp_path / "history.edn", operations[:count], ask=("consistent", "total"))
        except TraceError:
            continue
        assert not broken(runs) - {"synchronous"}
        assert all(kinds(run) in ([], ["sends-alone"], ["deliveries-alone"]) for run in runs.values())
        assert all(run.checks["lost"].verdict == "unknown" for run in runs.values() if run.checks)


@pytest.mark.parametrize("seed", range(8))
def test_json_reads_as_edn_does(tmp_path: Path, seed: int) -> None:
    operations = correct(seed, is_list=seed % 2 == 0)
    expected = audited(tmp_path / "history.edn", operations)
    lines = [json.dumps(each, ensure_ascii=False) for each in operations]
    for text in ("\n".join(lines) + "\n", "[" + ",\n".join(lines) + "]", json.dumps(operations, indent=1)):
        (tmp_path / "history.json.gz").write_bytes(gzip.compress(text.encode()))
        found = {run.run.partition("/")[2]: run for run in busq.audit.audit(tmp_path / "history.json.gz").runs}
        for key, run in expected.items():
            assert {name: check.verdict for name, check in run.checks.items()} == {
                name: check.verdict for name, check in found[key].checks.items()
            }


# ---- what is wrong with a database ----


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (
            [(0, "ok", [["append", "x", 1]]), (0, "ok", [["append", "x", 2]]), (1, "ok", [["r", "x", [2, 1]]])],
            {"fifo", "causal", "side"},
        ),
        ([(0, "ok", [["append", "x", 1]]), (1, "ok", [["r", "x", [1, 1]]])], {"duplicated"}),
        ([(0, "ok", [["append", "x", 1]]), (1, "ok", [["r", "x", [1, 9]]])], {"phantom"}),
        ([(0, "fail", [["append", "x", 1]]), (1, "ok", [["r", "x", [1]]])], {"phantom"}),
        ([(0, "info", [["append", "x", 1]]), (1, "ok", [["r", "x", [1]]])], set()),
        (
            [
                *((0, "ok", [["append", "x", 1]]), (1, "ok", [["r", "x", [1]]])),
                *((1, "ok", [["append", "x", 2]]), (2, "ok", [["r", "x", [2, 1]]])),
            ],
            {"causal", "side"},
        ),
        (
            [
                (0, "ok", [["w", "x", 1]]),
                (0, "ok", [["w", "x", 2]]),
                (1, "ok", [["r", "x", 2]]),
                (1, "ok", [["r", "x", 1]]),
            ],
            {"fifo", "causal", "side"},
        ),
        ([(0, "ok", [["w", "x", 1]]), (1, "ok", [["r", "x", 1]]), (1, "ok", [["r", "x", 1]])], set()),
        (
            [(0, "ok", ("write", 1)), (0, "ok", ("write", 2)), (1, "ok", ("read", 2)), (1, "ok", ("read", 1))],
            {"fifo", "causal", "side"},
        ),
        ([(0, "ok", ("write", ["k", 1])), (1, "ok", ("cas", ["k", [1, 2]])), (2, "ok", ("read", ["k", 2]))], set()),
        (
            [
                (0, "ok", [["append", "x", 1], ["append", "y", 2]]),
                (1, "ok", [["r", "y", [2]]]),
                (1, "ok", [["r", "x", [1]]]),
            ],
            set(),
        ),
    ],
)
def test_what_reads_show_is_found_and_nothing_else(tmp_path: Path, operations: Any, expected: set[str]) -> None:
    runs = audited(tmp_path / "history.edn", history(*operations), ask=("consistent", "total"))
    assert broken(runs) - {"synchronous"} == expected


def test_a_read_that_contradicts_one_before_is_told_and_leaves_orders_open(tmp_path: Path) -> None:
    begin = [(0, "ok", [["append", "x", 1]]), (0, "ok", [["append", "x", 2]]), (1, "ok", [["r", "x", [1, 2]]])]
    for later in ([1], None, [2, 1]):
        (run,) = audited(tmp_path / "history.edn", history(*begin, (1, "ok", [["r", "x", later]]))).values()
        assert kinds(run) == ["stale-reads"]
        assert run.checks["fifo"].verdict == "unknown"
    (run,) = audited(
        tmp_path / "history.edn", history((1, "ok", [["r", "x", []]]), *begin[:2], (1, "ok", [["r", "x", None]]))
    ).values()
    assert "stale-reads" not in kinds(run)


def test_the_first_value_of_a_register_is_no_phantom_and_a_second_one_is(tmp_path: Path) -> None:
    operations = [(1, "ok", ("read", 0)), (0, "ok", ("write", 1)), (1, "ok", ("read", 1))]
    (run,) = audited(tmp_path / "history.edn", history(*operations)).values()
    assert (kinds(run), run.checks["phantom"].verdict) == (["initial-value"], "unknown")
    (run,) = audited(tmp_path / "history.edn", history(*operations, (1, "ok", ("read", 7)))).values()
    assert run.checks["phantom"].verdict == "invalid"


def test_values_that_are_written_twice_leave_all_open(tmp_path: Path) -> None:
    operations = [(0, "ok", ("write", 1)), (0, "ok", ("write", 2)), (0, "ok", ("write", 1)), (1, "ok", ("read", 2))]
    (run,) = audited(tmp_path / "history.edn", history(*operations, (1, "ok", ("read", 1)))).values()
    assert "ambiguous" in kinds(run)
    assert {check.verdict for name, check in run.checks.items() if name != "synchronous"} == {"unknown"}


@pytest.mark.parametrize("f", ["add", "transfer", "enqueue"])
def test_other_histories_are_refused_by_the_names_of_their_operations(tmp_path: Path, f: str) -> None:
    (tmp_path / "history.edn").write_text(
        f"{{:type :invoke, :f :{f}, :value 1, :process 0}}\n{{:type :ok, :f :read, :value [1 2], :process 1}}\n"
    )
    with pytest.raises(TraceError, match=f"found operations {f}: expected txn with append, w and r, or write, read"):
        trace.find(tmp_path)


def test_a_history_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    whole = "".join(edn(each) + "\n" for each in correct(3, is_list=True))
    for end in (len(whole) - 5, len(whole) // 2, len(whole) // 3):
        (tmp_path / "history.edn").write_text(whole[:end])
        found = busq.audit.audit(tmp_path)
        assert all("truncated" in kinds(run) for run in found.runs)
    (tmp_path / "history.edn").write_text("")
    with pytest.raises(TraceError, match="none of which is a log"):
        busq.audit.audit(tmp_path)
    (tmp_path / "history.edn").write_text(whole + "{:type :ok]\n")
    assert "bad-line" in kinds(busq.audit.audit(tmp_path).runs[0])


def test_edn_is_read_as_clojure_writes_it() -> None:
    text = '#jepsen.history.Op{:index 1, :f :txn, #_(a) :value [#{1 2} (3.5 -4N) "a\\"b\\n" nil true]} ; end\n#_ 7 :x'
    (line, op), (_, word) = forms(text)
    assert (line, word) == (1, "x")
    assert op == {"index": 1, "f": "txn", "value": [[1, 2], [3.5, -4], 'a"b\n', None, True]}
    for bad in ("{:a}", "]", "[1", '"a'):
        with pytest.raises(BadEdn):
            list(forms(bad))
