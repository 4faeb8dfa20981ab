# SPDX-License-Identifier: Apache-2.0
"""A folder that a cluster shares: files are put in order there, and judged where they stand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import run_command
from foreign_runs import make_foreign
from test_foreign import assert_same

from busq.audit.native import audit
from busq.audit.spark.large_run import huge, repack
from busq.audit.spark.sessions import driver
from busq.bench.audit_run import Plan
from busq.trace import TraceError, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    make_foreign(tmp_path / "trace", Plan(2_000, stamps=False, faults=24), "ids", 3)
    return tmp_path / "trace"


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    (tmp_path / "staging").mkdir()
    return tmp_path / "staging"


@pytest.fixture
def looks_like_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether executors share files is not known, as where they are on other machines."""
    monkeypatch.setattr(repack, "shares_files", lambda spark: False)


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders into which runs are put in order."""
    folders: list[Path] = []
    repacked = repack.repacked

    def noted(spark: SparkSession, loaded: Any, folder: Path) -> Any:
        folders.append(folder)
        return repacked(spark, loaded, folder)

    monkeypatch.setattr(repack, "repacked", noted)
    return folders


@pytest.mark.usefixtures("looks_like_a_cluster")
@pytest.mark.parametrize("is_staged", [False, True], ids=["joined", "staged"])
def test_a_run_is_judged_alike_with_and_without_the_folder(
    spark: SparkSession, trace: Path, staging: Path, put: list[Path], is_staged: bool
) -> None:
    source = find([trace]).sources[0]
    found = huge.audit(spark, source, place=staging if is_staged else None)
    assert_same(found, audit(read(source)), str(trace))
    assert [folder.is_relative_to(staging) for folder in put] == [True] * len(put)
    assert bool(put) == is_staged
    assert list(staging.iterdir()) == []
    assert repack._staging.get() == ""


def test_a_folder_that_executors_do_not_see_is_refused(
    spark: SparkSession, trace: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repack, "writes_into", lambda spark, folder, tasks: False)
    with pytest.raises(TraceError, match=f"{staging}: what executors write there is not in that folder here"):
        huge.audit(spark, find([trace]).sources[0], place=staging)
    assert list(staging.iterdir()) == []
    assert repack._staging.get() == ""


def test_a_task_that_cannot_write_is_noticed(spark: SparkSession, staging: Path) -> None:
    assert driver.writes_into(spark, str(staging), 3)
    assert sorted(path.name for path in staging.iterdir()) == ["task0", "task1", "task2"]
    assert not driver.writes_into(spark, str(staging / "elsewhere"), 3)


def test_two_threads_of_a_session_do_not_take_each_others_folder(
    spark: SparkSession, tmp_path: Path, staging: Path
) -> None:
    """One that ends while the other is at work neither takes its folder away, nor leaves its own behind."""
    (tmp_path / "other").mkdir()
    first, second = repack.staged_in(spark, staging), repack.staged_in(spark, tmp_path / "other")
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as another:
        one.submit(first.__enter__).result()
        another.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert another.submit(repack._staging.get).result() == str(tmp_path / "other")
        another.submit(second.__exit__, None, None, None).result()
        assert [one.submit(repack._staging.get).result(), another.submit(repack._staging.get).result()] == ["", ""]


@pytest.mark.usefixtures("spark")
def test_the_command_takes_it_for_files(
    trace: Path, staging: Path, put: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busq.audit.many.fits", lambda source: False)
    found = run_command("audit", str(trace), "--staging", str(staging), "--json")
    assert found.exit_code == 1, found.output
    assert put
    assert all(folder.is_relative_to(staging) for folder in put)
    refused = run_command("audit", str(trace), "--staging", str(staging / "none"))
    assert refused.exit_code == 2
    assert f"{staging}/none: no such folder: expected one that this machine and all executors see" in refused.stderr
    refused = run_command("audit", str(trace), "--staging", str(staging), "--follow")
    assert "--staging does not go with --follow" in refused.stderr
