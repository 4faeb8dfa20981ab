# SPDX-License-Identifier: Apache-2.0
"""Runs in the shapes in which people keep them: the audit in C finds what is true of them, or that it can't know.

160 shapes are drawn; `BUSQ_TEST_SHAPES=20000 pytest tests/audit/test_shapes.py` draws that many.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

from audit_oracle import AuditOracle, Row, judge
from shapes import Drawn, Shape, draw, sources_of
from test_audit_agreement import assert_agreement, verdicts
from vague_runs import assert_holds_whatever_they_mean, sent_to_all, tell_senders

from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, RunAudit
from busq.spec import PROPERTIES
from busq.trace import TraceError, find, read
from busq.trace.guesses import NO_DELIVERIES, NO_SENDS, ORDER_UNKNOWN

SHAPES = int(os.environ.get("BUSQ_TEST_SHAPES", "160"))
VAGUE_SHAPES = int(os.environ.get("BUSQ_TEST_SHAPES", "40"))  # with rows of unknown kinds
BLOCKS = 10  # of shapes, so that workers share them

# The audit leaves open what the oracle knows: also which column is the process, where one sent and delivered all.
NOT_FOR_THE_ORACLE = {NO_SENDS, NO_DELIVERIES, *ORDER_UNKNOWN, "ambiguous", "other-column", "kinds-guessed"}

Rows = list[list[Row]]


def assert_true(shape: Shape, drawn: Drawn, rows: Rows, found: RunAudit) -> None:
    """A verdict is that of the oracle, or unknown; unknown only where the shape does not hold enough."""
    oracle = AuditOracle(rows)
    true, certain = verdicts(oracle), oracle.certain.counts if oracle.certain else oracle.counts
    kinds = {finding.kind for finding in found.findings}
    doubtful = {NO_SENDS, NO_DELIVERIES, *ORDER_UNKNOWN, "other-column", "kinds-guessed"}
    may_doubt = not drawn.has_order or bool(kinds & doubtful)
    for name, count in oracle.counts.items():
        check, hint = found.checks[name], f"{name}: {shape}"
        if name == "causal" and kinds >= {"impossible", "resent"}:  # of a part, other causes than of the whole are left
            assert check.verdict in (true[name], INVALID, UNKNOWN), hint
            continue
        if check.verdict == UNKNOWN and (may_doubt or not count):
            assert may_doubt or true[name] == UNKNOWN or name not in PROPERTIES, hint
            continue
        least = 0 if may_doubt else certain[name]
        assert least <= check.count <= count if check.at_least else check.count == count, hint
        if name == "phantom" and count:  # names without a meaning can't show whose log may have ended before
            assert check.verdict in (INVALID, UNKNOWN), hint
        elif name in PROPERTIES:
            assert check.verdict == true[name], hint


def assert_empty(drawn: Drawn) -> None:
    """Of nothing, nothing is reported."""
    try:
        runs = [audit(read(source)) for source in find([drawn.folder], options=drawn.options).sources]
    except TraceError as error:
        assert re.search("no event|none of which|nothing that", str(error)), drawn.shape  # noqa: PT017
        return
    assert {check.verdict for run in runs for check in run.checks.values()} == {UNKNOWN}, drawn.shape


def assert_all_true(seed: int, folder: Path) -> None:
    drawn = draw(seed, folder)
    shape = drawn.shape
    if not any(map(any, drawn.truth.values())):
        assert_empty(drawn)
        return
    for name, source in sources_of(drawn).items():
        run = read(source)
        found = audit(run)
        if drawn.is_unique:
            assert_true(shape, drawn, drawn.truth[name], found)
        elif shape.format == "parquet" and not {finding.kind for finding in found.findings} & NOT_FOR_THE_ORACLE:
            assert_agreement(run, found, judge(run), str(shape))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_verdicts_are_true_whatever_the_shape(block: int, tmp_path: Path) -> None:
    for seed in range(block * SHAPES // BLOCKS, (block + 1) * SHAPES // BLOCKS):
        assert_all_true(seed, tmp_path / f"{seed}")


def assert_vague_alike(seed: int, folder: Path) -> None:
    drawn = draw(seed, folder, has_vague=True)
    for name, source in sources_of(drawn).items() if drawn.is_unique and any(map(any, drawn.truth.values())) else ():
        found, rows = audit(read(source)), drawn.truth[name]
        kinds = {finding.kind for finding in found.findings}
        may_doubt = not drawn.has_order or bool(kinds & NOT_FOR_THE_ORACLE)
        has_destinations = drawn.is_broadcast or "destinations" not in drawn.shape.without
        facts = {"has_destinations": has_destinations, "may_doubt": may_doubt}
        facts["tells_sender"] = drawn.shape.tells_sender and tell_senders(rows)
        rows = sent_to_all(rows, are_indices=drawn.shape.processes == "index") if drawn.is_broadcast else rows
        assert_holds_whatever_they_mean(found, rows, f"{drawn.is_broadcast=} {drawn.shape}", **facts)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_verdicts_are_true_whatever_rows_of_unknown_kinds_mean(block: int, tmp_path: Path) -> None:
    for seed in range(block * VAGUE_SHAPES // BLOCKS, (block + 1) * VAGUE_SHAPES // BLOCKS):
        assert_vague_alike(seed, tmp_path / f"{seed}")


# These were judged otherwise, once: nothing shows their order of events, and something comes again; or, the last but
# one, all rows are of one node; or, the last one, a clock counts events of a process that nothing else mentions.
PINNED = (1965, 2403, 4109, 7939, 8777, 10204, 12104, 13263, 14072, 15138, 15890, 16203, 16803, 18507, 18631, 7102776)


@pytest.mark.parametrize("seed", PINNED)
def test_what_was_judged_otherwise_once_is_judged_truly(seed: int, tmp_path: Path) -> None:
    assert_all_true(seed, tmp_path / f"{seed}")


@pytest.mark.parametrize(
    "text", ['["ann", "bob, the 2nd"]', "['ann', 'bob, the 2nd']", "('ann', 'bob, the 2nd')", '{ann,"bob, the 2nd"}']
)
def test_a_list_in_a_cell_may_quote_its_names(text: str, tmp_path: Path) -> None:
    """As pandas, DuckDB, JSON and PostgreSQL print them: a name may hold what else stands between names."""
    quoted = text.replace('"', '""')
    lines = [
        "process,kind,message,destinations",
        f'cleo,send,1,"{quoted}"',
        "ann,deliver,1,",
        '"bob, the 2nd",deliver,1,',
    ]
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    run = read(find([tmp_path]).sources[0])
    assert run.processes == ("ann", "bob, the 2nd", "cleo")
    assert audit(run).checks["lost"].count == 0


@pytest.mark.parametrize(("order", "least"), [("deliver redeliver", 1), ("redeliver deliver", 1)])
def test_what_is_marked_as_repeated_may_have_come_first(order: str, least: int, tmp_path: Path) -> None:
    """In files that nothing puts in order, which of two deliveries repeats the other is unknown."""
    lines = [f"ann,{kind},7" for kind in order.split()]
    for number, line in enumerate([*lines, "bob,send,8"]):
        (tmp_path / f"part-{number}.csv").write_text(f"process,kind,message\n{line}\n")
    source = find([tmp_path], runs_by="none").sources[0]
    run_audit = audit(read(source))
    phantom = run_audit.checks["phantom"]
    assert {finding.kind for finding in run_audit.findings} & ORDER_UNKNOWN
    assert (phantom.count, phantom.at_least) == (least, True)


def test_nothing_is_certain_by_times_where_names_mean_several_messages(tmp_path: Path) -> None:
    """In this run messages of several senders have one name, and no delivery names its sender."""
    for source in sources_of(draw(8000008, tmp_path / "a")).values():
        found = audit(read(source))
        assert "ambiguous" in {finding.kind for finding in found.findings}
        assert (found.checks["side"].verdict, found.checks["side"].count) == (UNKNOWN, 2)
