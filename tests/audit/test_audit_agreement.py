# SPDX-License-Identifier: Apache-2.0
"""The audit in C agrees with the one that follows the definitions word by word: on runs at random, and on real ones."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import test_epfl
from audit_oracle import AuditOracle, judge, random_run, transcribe
from samples import course

from busq.audit.native import audit
from busq.audit.result import CHECKS, INVALID, UNKNOWN, VALID, RunAudit
from busq.spec import PROPERTIES
from busq.trace import Kind, Run, find, read, write

OF_SENDS = {"fifo", "causal", "synchronous", "side"}
MAY_BE_INVENTED = OF_SENDS | {"lost", "duplicated", "phantom", "consistent", "total"}  # where a message was sent twice
MAY_BE_HIDDEN = OF_SENDS | {"lost"}

IN_MEMORY = int(os.environ.get("BUSQ_TEST_SHAPES", "800"))
THROUGH_FILES = 60


def verdicts(oracle: AuditOracle) -> dict[str, str]:
    """What is to be reported about each check: the log may have been unable to show it."""
    is_torn = any(oracle.is_incomplete(process) for process in range(len(oracle.rows)))
    kinds = {row["kind"] for log in oracle.rows for row in log if row["message"] is not None}
    is_idle = Kind.DELIVER not in kinds
    said = {}
    of_certain = verdicts(oracle.certain) if oracle.certain else {}
    for name, count in oracle.counts.items():
        if of_certain and name in (MAY_BE_INVENTED if count else MAY_BE_HIDDEN):
            said[name] = INVALID if count and of_certain[name] == INVALID else UNKNOWN
        elif count:
            said[name] = UNKNOWN if oracle.open.get(name) == count else INVALID
        else:
            could_fail = not is_idle or (name == "lost" and Kind.SEND in kinds)
            said[name] = VALID if could_fail and not is_torn else UNKNOWN
    return said


def assert_agreement(run: Run, found: RunAudit, oracle: AuditOracle, hint: str) -> None:
    counts = {name: check.count for name, check in found.checks.items() if name in oracle.counts}
    expected, true = verdicts(oracle), dict(oracle.counts)
    if oracle.certain:
        certain = oracle.certain.counts
        true |= {name: certain[name] for name in MAY_BE_INVENTED & counts.keys() if expected[name] == INVALID}
    assert counts == true, f"{hint}\n{transcribe(run)}"
    told = {name: found.checks[name].verdict for name in PROPERTIES}
    assert told == {name: expected[name] for name in PROPERTIES}, f"{hint}\n{transcribe(run)}"
    for name in CHECKS[len(PROPERTIES) :]:
        if oracle.counts.get(name):
            assert found.checks[name].verdict == expected[name], f"{name}: {hint}\n{transcribe(run)}"
        elif name in found.checks:
            assert found.checks[name].verdict in (VALID, UNKNOWN), f"{name}: {hint}\n{transcribe(run)}"


@pytest.mark.parametrize("block", range(10))
def test_every_run_at_random_gets_the_same_counts_and_verdicts(block: int) -> None:
    for seed in range(block * IN_MEMORY // 10, (block + 1) * IN_MEMORY // 10):
        run = random_run(random.Random(seed))
        assert_agreement(run, audit(run), judge(run), f"random_run(random.Random({seed}))")


def test_and_so_does_what_was_written_and_read_again(tmp_path: Path) -> None:
    for seed in range(THROUGH_FILES):
        run = random_run(random.Random(seed), f"run{seed}")
        write(run, tmp_path)
    found = {source.name: source for source in find([tmp_path]).sources}
    assert len(found) == THROUGH_FILES
    for seed in range(THROUGH_FILES):
        again = read(found[f"run{seed}"])
        oracle = judge(random_run(random.Random(seed)))
        assert_agreement(again, audit(again), oracle, f"random_run(random.Random({seed})), written and read")


# ---- logs of broadcast programs ----


def logs_of(paths: Iterable[str]) -> test_epfl.Logs:
    """The files of a run, for the observers that `test_epfl` holds against a second opinion."""
    numbers = {path: re.search(r"(\d+)\.output$", path) for path in paths}
    return {int(found[1]): Path(path).read_text() for path, found in numbers.items() if found}


@pytest.mark.parametrize("name", test_epfl.ALONE)
def test_logs_get_the_counts_of_the_observers_and_of_the_second_opinion(samples: Path, name: str) -> None:
    folder = course(samples, name)
    source = find(folder).sources[0]
    logs, found = logs_of(source.paths), audit(read(source))
    assert len(logs) == len(list(folder.glob("*.output"))) == len(found.processes)
    counts = test_epfl.counts(logs)
    assert {check: found.checks[check].count for check in PROPERTIES} == {check: counts[check] for check in PROPERTIES}
    assert found.checks["causal"].count == test_epfl.count_causal(test_epfl.without_empty(logs))
    assert found.checks["total"].count == test_epfl.count_on_cycles(logs)


@pytest.mark.parametrize("name", test_epfl.TWO)
def test_logs_of_two_runs_in_one_folder_are_judged_each_for_itself(samples: Path, name: str) -> None:
    found = find(course(samples, name))
    assert [finding.kind for finding in found.findings] == ["mixed-runs"]
    assert len(found.sources) == 2
    for source in found.sources:
        audited = audit(read(source))
        logs = {process: log for process, log in logs_of(source.paths).items() if f"p{process}" in audited.processes}
        counts = test_epfl.counts(logs)
        assert {check: audited.checks[check].count for check in PROPERTIES} == {c: counts[c] for c in PROPERTIES}
        assert audited.checks["causal"].count == test_epfl.count_causal(test_epfl.without_empty(logs))
