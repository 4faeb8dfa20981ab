# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of differences to multiprocessing's queues has a test that shows it."""

import re

import pytest
from conftest import ROOT, TESTS

PAGE = ROOT / "docs" / "howto" / "replace-multiprocessing-queue.md"

# The first words of a row, and the test of it in tests/core.
SHOWN = {
    "`put` of what can't be pickled": (
        "test_queues.py::test_what_cant_be_pickled_is_refused_at_once_and_leaves_no_trace"
    ),
    "an object that is changed": ("test_queue_views.py::test_what_is_put_is_no_longer_looked_at_once_put_returns"),
    "`_on_queue_feeder_error`": "test_queue_context.py::test_a_simple_queue_has_two_ends",
    "`multiprocessing.queues.Queue(ctx=...)`": (
        "test_queue_context.py::test_its_queues_are_ours_and_all_else_is_multiprocessings"
    ),
    "pickling": "test_queues.py::test_a_queue_is_handed_on_in_any_pickle",
    "a queue that its process drops": "test_queues.py::test_the_parent_forgets_a_queue_before_its_children_open_it",
    "unpickling a queue that is gone": "test_errors.py::test_a_queue_that_is_gone_is_no_closed_pipe",
    "an object whose pickle is larger": "test_beyond_arena.py::test_where_addresses_are_limited_the_arena_is_the_limit",
    "a process that is killed in": "test_queues.py::test_kills_at_random_lose_nothing_and_hold_nobody_up",
    "a process that is joined": "test_queues.py::test_a_process_ends_once_all_has_left_it",
    "`put` without `maxsize`, when": "test_queues.py::test_what_waited_in_a_process_that_was_killed_takes_no_room",
    "`put` without `maxsize` behind": (
        "test_queues.py::test_what_is_put_in_the_knowledge_of_what_another_process_has_put_is_behind_it"
    ),
    "arrays that are got": "test_queue_views.py::test_views_can_not_be_written_whatever_their_size",
    "`maxsize`": "test_queues.py::test_maxsize_is_exact_for_all_processes_and_threads_together",
    "`Full` of a queue": "test_queues.py::test_an_object_without_memory_is_refused_by_a_queue_that_is_not_full",
    "`SimpleQueue.put`": "test_queues.py::test_a_simple_queue_waits_for_room",
    "`qsize`": "test_queues.py::test_maxsize_and_the_looks_at_a_queue_are_exact",
    "`task_done` for an object": "test_queue_task_done.py::test_reports_count_as_a_counter_does",
    "objects that a process has got": "test_queues.py::test_a_process_may_hold_any_number_of_tasks",
    "a worker killed before `task_done`": "test_queues.py::test_a_task_of_a_killed_worker_comes_again",
    "a process that ends without `task_done`": (
        "test_queues.py::test_what_a_worker_that_ends_has_not_reported_is_not_waited_for"
    ),
    "`close`, while": "test_queues.py::test_closing_wakes_a_thread_that_waits",
    "a process that ends with objects": "test_queues.py::test_a_process_ends_though_nobody_can_get_what_it_has_put",
    "`shutdown`": "test_queue_shutdown.py::test_a_task_of_a_worker_that_is_killed_behind_an_immediate_end_is_dropped",
    "a worker of a `Pool`": "test_queue_context.py::test_the_workers_of_a_pool_that_was_killed_end",
    "`aget`": "test_queue_await.py::test_what_a_task_puts_a_task_gets",
    "an exception raised by a signal": "test_queues.py::test_a_signal_in_get_takes_one_object_at_most",
}


def test_every_difference_of_queues_has_a_test() -> None:
    table = PAGE.read_text().partition("## What is different")[2]
    rows = re.findall(r"^\| ([^|\n]+?) \|", table, re.MULTILINE)
    assert len(rows) == len(SHOWN)
    for row, words in zip(rows, SHOWN, strict=True):
        assert row.startswith(words)


@pytest.mark.parametrize("test", SHOWN.values())
def test_what_shows_it_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (TESTS / "core" / file).read_text()
