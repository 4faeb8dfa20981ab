# SPDX-License-Identifier: Apache-2.0
"""Objects that several processes keep alike: each has a copy, and all apply the same commands in one order.

A class derived from `Replica` defines the object, and marks the methods that are commands.  Ready-made: `Dict`,
`Counter`, `Lock`, `Election` and `Barrier`.

>>> import busq
>>> class Book(busq.Replica):
...     def __init__(self):
...         self.prices = {}
...
...     @busq.command
...     def set(self, name, price):
...         old = self.prices.get(name)
...         self.prices[name] = price
...         return old
>>> with busq.Bus.create("doc-replica") as bus:
...     with Book.join(bus, "book") as here, Book.join(bus, "book") as there:
...         here.set("A", 17), there.set("A", 18)
...         here.sync()
...         here.prices, there.prices
(None, 17)
({'A': 18}, {'A': 18})
>>> busq.Bus.unlink("doc-replica")
"""

from busq._state.replica_base import Batch, Replica, command
from busq._state.replica_locks import Barrier, Election, Lock
from busq._state.replica_values import Counter, Dict

__all__ = ["Barrier", "Batch", "Counter", "Dict", "Election", "Lock", "Replica", "command"]
