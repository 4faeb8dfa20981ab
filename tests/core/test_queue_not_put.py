# SPDX-License-Identifier: Apache-2.0
"""What becomes of a queue in an object that can't be put."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import busq


def handed(queue: Any) -> int:
    return int(queue._home.raw.handed(queue._name, 0))


def dropped(kind: Any = busq.Queue, **options: Any) -> Any:
    queue = kind(**options)
    queue.shutdown()
    return queue


def full(**options: Any) -> Any:
    queue: busq.Queue[Any] = busq.Queue(1, **options)
    queue.put("the only one")
    return queue


@pytest.mark.parametrize(
    "put",
    [
        lambda sent: full().put(sent, timeout=0.01),
        lambda sent: full(views=True).put_nowait([sent, sent, bytearray(1 << 20)]),
        lambda sent: asyncio.run(full().aput(sent, timeout=0.01)),
        lambda sent: busq.put_all([busq.Queue(), full()], sent, block=False),
        lambda sent: dropped().put(sent),
        lambda sent: dropped(busq.JoinableQueue).put(sent),
        lambda sent: dropped(busq.SimpleQueue).put(sent),
        lambda sent: busq.put_all([dropped()], sent),
        lambda sent: busq.Queue().put([sent, lambda: None]),
    ],
    ids=["full", "views", "tasks", "several", "ended", "ended tasks", "ended, simple", "several, ended", "no pickle"],
)
def test_a_queue_that_found_no_room_is_not_handed_on(put: Callable[[Any], None]) -> None:
    sent: busq.Queue[int] = busq.Queue()
    for _ in range(3):
        with pytest.raises((busq.Full, busq.ShutDown, pickle.PicklingError, AttributeError)):
            put(sent)
    assert handed(sent) == 0


@pytest.mark.parametrize(
    "put",
    [lambda queue, sent: queue.put(sent, timeout="soon"), lambda queue, sent: asyncio.run(queue.aput(sent, "soon"))],
)
def test_neither_is_one_with_a_timeout_that_is_none(put: Callable[[Any, Any], None]) -> None:
    sent: busq.Queue[int] = busq.Queue()
    with pytest.raises(TypeError):
        put(busq.Queue(), sent)
    assert handed(sent) == 0


@pytest.mark.parametrize("views", [False, True])
def test_one_that_was_put_behind_others_that_were_not_is_handed_on(views: bool) -> None:
    through: busq.Queue[Any] = busq.Queue(1, views=views)
    sent: busq.Queue[int] = busq.Queue()
    pickled = pickle.dumps(sent)  # by another way, which has not come to its end
    through.put((sent, bytearray(1 << 20)))
    with pytest.raises(busq.Full):
        through.put(sent, block=False)
    assert handed(sent) == 2
    sent.put(17)
    assert through.get()[0].get() == 17
    assert handed(sent) == 1
    pickle.loads(pickled)
    assert handed(sent) == 0
