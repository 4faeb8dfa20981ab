# SPDX-License-Identifier: Apache-2.0
"""Every function from DataFrame to DataFrame has an example in its docstring, and it runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from busq.audit.spark.large_run import checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULES = ["checks", "islands", "latencies", "load", "readers", "sent_once", "vector_clocks", "views"]


def run(name: str, globs: dict[str, Any]) -> None:
    """Run the examples of a module, its own first: what these define is there in the others."""
    module = importlib.import_module(f"busq.audit.spark.large_run.{name}")
    runner, parser = doctest.DocTestRunner(), doctest.DocTestParser()
    head = parser.get_doctest(module.__doc__ or "", vars(module) | globs, name, module.__file__, 0)
    runner.run(head, clear_globs=False)
    for function in (getattr(module, key) for key in module.__all__):
        text = (function.__doc__ or "") if callable(function) else ""
        runner.run(parser.get_doctest(text, head.globs, f"{name}.{function}", module.__file__, 0))
    assert runner.failures == 0


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    """What the docstring of `busq.spark.checks` makes."""
    test = doctest.DocTestParser().get_doctest(checks.__doc__ or "", {"spark": spark}, "checks", None, 0)
    doctest.DocTestRunner().run(test, clear_globs=False)
    return test.globs["events"].cache()


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation_run(name: str, spark: SparkSession, events: DataFrame) -> None:
    run(name, {"spark": spark, "events": events})


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_that_gives_a_dataframe_has_an_example(name: str) -> None:
    module = importlib.import_module(f"busq.audit.spark.large_run.{name}")
    functions = [value for key in module.__all__ if inspect.isfunction(value := getattr(module, key))]
    giving = [each for each in functions if each.__annotations__["return"] in ("DataFrame", "Column", "Loaded")]
    assert [each.__name__ for each in giving if ">>>" not in (each.__doc__ or "")] == []
