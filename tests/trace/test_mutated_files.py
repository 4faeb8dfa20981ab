# SPDX-License-Identifier: Apache-2.0
"""Damaged files, and files of the unexpected: a verdict with its findings, or a line that names what is wrong.

500 are drawn; `BUSQ_TEST_MUTATIONS=5000 pytest tests/trace/test_mutated_files.py` draws that many.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

from conftest import run_command
from mutations import mutate

import busq
from busq.errors import BusqError

MUTATIONS = int(os.environ.get("BUSQ_TEST_MUTATIONS", "500"))
BLOCKS = 10  # of mutations, so that workers share them


def assert_judged_or_refused(seed: int, folder: Path) -> None:
    done = mutate(seed, folder)
    try:
        audit = busq.audit.audit(folder)
    except BusqError as error:
        text = str(error)
        assert text, done
        assert "\n" not in text, f"{done}: {text}"
        return
    for run in audit.runs:
        judged = {check.verdict for check in run.checks.values()}
        assert judged <= {"valid", "invalid", "unknown"}, done
        for check in run.checks.values():
            assert check.text, f"{done}: {check}"
            assert "\n" not in check.text, f"{done}: {check}"
        if not run.messages and not run.deliveries:
            told = {check.verdict for check in run.checks.values() if check.name != "clock"}
            assert told <= {"unknown"}, f"{done}: {run.checks}"
    assert_nothing_is_lost(audit, folder, done)


def assert_nothing_is_lost(audit: busq.audit.Audit, folder: Path, done: str) -> None:
    """Every line of a log with a line for each event is an event, or stands in a finding."""
    (first, *others) = [path for path in folder.rglob("*") if path.is_file()]
    if others or first.suffix != ".ndjson":
        return
    lines = [line for line in first.read_bytes().split(b"\n") if line.strip(b"\r \t\0")]
    findings = [*audit.findings, *(finding for run in audit.runs for finding in run.findings)]
    if any(finding.kind == "unreadable" for finding in findings):
        return
    bad = sum(finding.count for finding in findings if finding.kind in ("bad-line", "truncated"))
    assert sum(run.events for run in audit.runs) + bad >= len(lines), f"{done}: {findings}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_file_is_too_strange(block: int, tmp_path: Path) -> None:
    for seed in range(block * MUTATIONS // BLOCKS, (block + 1) * MUTATIONS // BLOCKS):
        assert_judged_or_refused(seed, tmp_path / f"{seed}")
        shutil.rmtree(tmp_path / f"{seed}")


def test_a_column_of_runs_that_is_damaged_is_told_with_the_rest(tmp_path: Path) -> None:
    """Which runs a file holds is looked up before it is read."""
    assert_judged_or_refused(1226, tmp_path / "logs")
    (run,) = busq.audit.audit(tmp_path / "logs").runs
    assert "damaged or cut off" in run.findings[0].text


@pytest.mark.parametrize("seed", range(40))
def test_the_command_ends_as_the_library_does(seed: int, tmp_path: Path) -> None:
    mutate(seed, tmp_path / "logs")
    result = run_command("audit", tmp_path / "logs")
    assert result.exit_code in (0, 1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
