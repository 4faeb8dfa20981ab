# SPDX-License-Identifier: Apache-2.0
"""What all tests of Spark share: one session, started when the first test asks for it.

Everything in this folder is skipped, with a reason, where Spark can't run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _missing() -> str:
    if sys.version_info < (3, 11):
        return "Spark needs Python 3.11"
    lacking = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}: pip install 'busq[spark]'"
    from busq.audit.spark.sessions.available import Unavailable
    from busq.audit.spark.sessions.java import find_java

    try:
        find_java()
    except Unavailable as error:
        return str(error)
    return ""


MISSING = _missing()
THROUGH_CONNECT = os.environ.get("BUSQ_TEST_SPARK") == "connect"

# Every Java of these tests lives for seconds: compiling thoroughly, and with many threads, costs more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


class _Skipped(pytest.Module):
    """A module that is not even imported: what it imports is not there."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip(MISSING, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return _Skipped.from_parent(parent, path=module_path) if MISSING else None


CONFIG = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Compiling a plan, or thinking it over, takes longer than running it on so few rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests: small, two threads, few partitions, ended with the test run.

    `BUSQ_TEST_SPARK=connect`: that of a Connect server, so that all of busq.spark is tried through it.
    """
    import busq.spark

    if not THROUGH_CONNECT:
        with busq.spark.session("local[2]", "1g", config=CONFIG) as session:
            yield session
        return
    from servers import connect_server

    config = {name.replace(".", "__"): value for name, value in CONFIG.items()}
    with connect_server(tmp_path_factory.mktemp("connect"), **config) as url, busq.spark.session(url) as session:
        yield session
