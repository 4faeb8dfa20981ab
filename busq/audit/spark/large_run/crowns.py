# SPDX-License-Identifier: Apache-2.0
"""Crowns of a run whose observer of them does not fit into memory, though those of the other orders may.

That observer takes several times what all others take.  Hardly a run is without crowns, and in most of them nearly
every message is on one.  A crown needs no more than its own events: one in a part of a run is a crown of the whole.  So
the first part of every log is judged, as much as fits, before anything is named anew or ranked for crowns alone; what
is found there is a lower bound.  Only where few messages of that part are on crowns, islands are looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from busq.audit.result import Check
from busq.audit.spark.large_run import file_stream, islands, layout
from busq.audit.spark.large_run.load import Loaded
from busq.audit.spark.large_run.lost_and_duplicated import Fingerprints, first_deliveries
from busq.audit.spark.large_run.orders import LARGE_SHARE, by_observers, certified, certify, memory_needed, observed
from busq.audit.spark.large_run.profile import Case

__all__ = ["OF_CROWNS", "do_not_fit", "judged"]

OF_CROWNS = "synchronous"
_FILLED = 0.9  # of the memory that may be taken


def do_not_fit(case: Case, names: Sequence[str], budget: int) -> bool:
    """Return whether crowns are asked for in files of a run that is too large for a look at all of them."""
    return OF_CROWNS in names and bool(case.logs) and memory_needed(case, [OF_CROWNS]) > budget


def judged(spark: SparkSession, case: Case, budget: int) -> Check:
    """Judge the crowns of a run that is too large for a look at all of them, within so many bytes of memory.

    Cost: a pass over the first part of the files; where few crowns are there, that of ranks and their islands.
    """
    share = min(1.0, _FILLED * budget / memory_needed(case, [OF_CROWNS]))
    found = _of_a_part(case, share)
    if found.count > LARGE_SHARE * share * case.total("sends"):
        why = f"only the first {share:.0%} of each log were judged, the rest does not fit into memory"
        return replace(found, text=f"{found.text}; {why}", at_least=True)
    return _on_islands(spark, case, budget)


def _of_a_part(case: Case, share: float) -> Check:
    most = {process: int(share * facts["rows"]) for process, facts in case.profile.items()}
    history = file_stream.history_of(case.logs, len(case.names), most)
    rows = islands.results_of("", history, [OF_CROWNS]).to_pylist()
    return observed(case, rows, "c", are_old=True)[OF_CROWNS]


def _on_islands(spark: SparkSession, case: Case, budget: int) -> Check:
    """Judge crowns by ranks, which need names of messages with their senders and numbers."""
    run = Loaded(
        case.events, case.names, rows=case.rows, logs=case.logs, is_renamed=case.is_renamed, called=case.called
    )
    with (
        layout.laid_out(spark, run, lambda _: False) as (named, summary),
        closing(Case(named, case.source, summary.profile if summary else None)) as part,
    ):
        certificate = certify(part, None, are_restamped=True)
        proven, left = certified(certificate, [OF_CROWNS])
        firsts = partial(first_deliveries, part, Fingerprints())
        return (proven or by_observers(spark, part, left, certificate, budget, firsts))[OF_CROWNS]
