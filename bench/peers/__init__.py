# SPDX-License-Identifier: Apache-2.0
"""The peers, in the order in which tables show them."""

from __future__ import annotations

from .base import Adapter, Endpoint
from .cloudtoid import CloudtoidAdapter
from .fasterfifo import FasterFifoAdapter, FasterFifoRawAdapter
from .hyper import HyperQAdapter
from .iceoryx import IceoryxAdapter, IceoryxViewAdapter
from .native import CoreAdapter, FloorAdapter, RingAdapter
from .of_objects import (
    BusqQueueAdapter,
    DejaqAdapter,
    LimitedQueueAdapter,
    PySharedMemoryAdapter,
    UnlimitedQueueAdapter,
)
from .ours import BusqAdapter, BusqViewAdapter
from .standard import PipeAdapter, QueueAdapter, SimpleQueueAdapter
from .zeromq import PubAdapter, PushAdapter

_CLASSES: tuple[type[Adapter], ...] = (
    BusqAdapter,
    BusqQueueAdapter,
    LimitedQueueAdapter,
    UnlimitedQueueAdapter,
    QueueAdapter,
    SimpleQueueAdapter,
    PipeAdapter,
    FasterFifoAdapter,
    FasterFifoRawAdapter,
    PushAdapter,
    PubAdapter,
    IceoryxAdapter,
    HyperQAdapter,
    CloudtoidAdapter,
    DejaqAdapter,
    PySharedMemoryAdapter,
    BusqViewAdapter,
    IceoryxViewAdapter,
    CoreAdapter,
    FloorAdapter,
    RingAdapter,
)

ADAPTERS: dict[str, Adapter] = {adapter.name: adapter() for adapter in _CLASSES}

__all__ = ["ADAPTERS", "Adapter", "Endpoint"]
