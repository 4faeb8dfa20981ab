# SPDX-License-Identifier: Apache-2.0
"""The page of a stage, as the command line and notebooks have it."""

from __future__ import annotations

import html
from collections.abc import Iterable

from busq._port.arguments import whole_number
from busq._util import arguments
from busq.lab.stage_page.choices import Limits
from busq.lab.stage_page.server import PageServer
from busq.lab.stage_page.state import Conductor

__all__ = ["StagePage", "show"]


class StagePage(PageServer):
    """A page that is served at `url` until it is closed; in a notebook it shows itself."""

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{html.escape(self.url)}" title="stage" width="100%" height="760" style="border: 0"></iframe>'
        )


def show(
    order: str, processes: int | Iterable[str] = 3, *, messages: int = 2, crashes: int = 0, port: int = 0
) -> StagePage:
    """Serve a page on which you are the network of an order; in a notebook, show it.

    Every packet that may arrive is a button; the space-time diagram grows, clocks and states stand beside each process,
    and a property lights up when it breaks.

    Parameters: `order`, with its options; `processes`, their number or their names; `messages` that
    each may send; `crashes`, how many may die; `port` on 127.0.0.1, 0 for a free one.

    Errors: ValueError for an order or processes that can't be, ImportError without matplotlib, OSError for a port that
    is taken.  Cost: a thread until it is closed, and about a tenth of a second per step.

    >>> with show("fifo", ["ann", "bob"]) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    limits = Limits(whole_number("messages", messages, 32), whole_number("crashes", crashes, 32))
    return StagePage(Conductor(order, arguments.process_names(processes), limits), whole_number("port", port, 16))
