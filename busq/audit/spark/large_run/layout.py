# SPDX-License-Identifier: Apache-2.0
"""How a run is laid out before its judge: as files like busq's own, that can be looked at where they stand.

A stranger's run is put into such files, once for its order.  Twice, if marks of repetitions and failed sends have to be
settled, or if messages have to be named anew: that is so where names contain neither sender nor order, and the run is
too large for the observers in C, which take any names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from busq._util.humanize import amount
from busq.audit.spark.large_run import checks, repack, segments
from busq.audit.spark.large_run.load import Loaded
from busq.audit.spark.large_run.segments import Summary
from busq.trace.finding import Finding
from busq.trace.guesses import resent

__all__ = ["NUMBERS_MAX", "laid_out", "named_anew"]

NUMBERS_MAX = (1 << 32) - 2  # of the messages of a sender, when they are named by positions


@contextlib.contextmanager
def laid_out(
    spark: SparkSession, loaded: Loaded, takes_any_names: Callable[[Summary], bool]
) -> Iterator[tuple[Loaded, Summary | None]]:
    """Give a run as files that can be looked at where they stand, with their summary; as it is, where that can't be.

    `takes_any_names`: whether the judge can do with the names that there are.  The files go with the block.
    """
    summary = segments.summarise(spark, loaded.logs) if loaded.logs else None
    if summary is not None and _is_usable(summary, takes_any_names):
        yield loaded, summary
    elif not repack.is_possible(spark):
        yield replace(loaded, logs=()), None
    else:
        with repack.workplace(spark) as folder:
            yield _moved(spark, loaded, summary, folder, takes_any_names)


def _is_usable(summary: Summary, takes_any_names: Callable[[Summary], bool]) -> bool:
    is_settled = not summary.total("unsettled")
    return is_settled and summary.is_in_order and (summary.are_named or takes_any_names(summary))


def _moved(
    spark: SparkSession,
    loaded: Loaded,
    summary: Summary | None,
    folder: Path,
    takes_any_names: Callable[[Summary], bool],
) -> tuple[Loaded, Summary]:
    """Put a run into files; `summary`: of its own files, if it has any, which then need not be put in order first."""
    if summary is None or not (summary.is_in_order or summary.total("unsettled")):
        loaded, summary = _put(spark, loaded, folder / "in-order")
    else:
        loaded = replace(loaded, facts=summary.profile)
    if summary.total("sends") and summary.total("deliveries"):  # afterwards, sends that failed do not count
        loaded = replace(loaded, is_foreign=False)
    if summary.total("unsettled"):
        loaded, summary = _settled(spark, loaded, summary, folder)
    if not summary.are_named and not takes_any_names(summary):
        loaded, summary = _renamed(spark, loaded, summary, folder)
    return loaded, summary


def _put(spark: SparkSession, loaded: Loaded, folder: Path) -> tuple[Loaded, Summary]:
    folder.mkdir()
    written = repack.repacked(spark, loaded, folder)
    return written, segments.summarise(spark, written.logs) if written.logs else Summary()


def _settled(spark: SparkSession, loaded: Loaded, summary: Summary, folder: Path) -> tuple[Loaded, Summary]:
    events = checks.settled(loaded.events)
    rewritten, settled = _put(spark, replace(loaded, events=events, logs=()), folder / "settled")
    repack.remove(folder / "in-order")
    again = summary.total("repetitions") - (settled.total("deliveries") - summary.total("deliveries"))
    return replace(rewritten, findings=[*rewritten.findings, *told_again(again)]), settled


def told_again(count: int) -> list[Finding]:
    """Return findings about marked repetitions."""
    if not count:
        return []
    text = f"{amount(count, 'delivery', 'deliveries')} marked as repeated: not counted again"
    return [Finding("redelivered", text, count, is_error=False)]


def _renamed(spark: SparkSession, loaded: Loaded, summary: Summary, folder: Path) -> tuple[Loaded, Summary]:
    lows = [facts["first"] or 0 for facts in summary.profile.values()]
    highs = [facts["last"] or 0 for facts in summary.profile.values()]
    before = checks.without_passed(loaded.events) if summary.total("passes") else loaded.events
    has_ties = bool(summary.total("doubled"))
    events = named_anew(before, min(lows), max(highs), has_ties=has_ties)
    rewritten, renamed = _put(spark, replace(loaded, events=events, logs=(), is_renamed=True), folder / "renamed")
    findings = resent_findings(loaded.events, summary.total("sends") - renamed.total("sends"), loaded.names)
    for name in ("in-order", "settled") if not has_ties else ():
        repack.remove(folder / name)
    placed = before if has_ties else None
    return replace(rewritten, findings=[*rewritten.findings, *findings], placed=placed), renamed


def named_anew(events: DataFrame, low: int, high: int, *, has_ties: bool) -> DataFrame:
    """Name the messages anew, by the places of their sends: by numbers of these, if positions would not do."""
    if has_ties or high - low >= NUMBERS_MAX:
        events = checks.counted(events, low=low, high=high)
        low = 1
    return checks.renamed(events, low=low)


def resent_findings(events: DataFrame, count: int, names: tuple[str, ...]) -> list[Finding]:
    """Return findings about messages that were sent more than once, under their first names."""
    if not count:
        return []
    first = checks.resent(events).agg(F.min("process").alias("process")).collect()[0]["process"]
    name = names[first] if first < len(names) else f"p{first}"
    return [resent(f"{amount(count, 'send')} of messages that had been sent already", count, name)]
