# SPDX-License-Identifier: Apache-2.0
"""Events on their way to a run: as a reader found them, and with indices for processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._util.side_by_side import side_by_side
from busq.trace.schema import Kind

__all__ = ["Events", "Rows"]

_ARRAYS = ("process", "kind", "message", "sender", "tells", "file", "line", "of_messages")


@dataclass(kw_only=True)
class Events:
    """Events as a reader found them, a row each, in the order of the files.

    `columns` has process, kind (numbers of `Kind`) and message, and perhaps destinations, sender, position, label,
    time_ns, commit_ns, end_ns, stamp and clock; names are text, or whole numbers of 64 bits.  `file` is the place of
    the row's file among the paths of the source.  `of_messages` marks rows that come from a row for a whole message:
    their places in a log follow from their times.

    Of text, where a later line is a later event (`are_lines`), `clocks` has a clock or None for each row, if there are
    any, and `nameless` counts, by their words, the sends and deliveries without a message.
    """

    columns: dict[str, Any]
    file: Any
    line: Any
    of_messages: Any
    are_lines: bool = False
    clocks: Sequence[Any] | None = None
    nameless: Mapping[str, int] = field(default_factory=dict)
    is_vague: Any = None  # marks rows of unknown kinds, if there are any

    def filtered(self, mask: Any) -> Events:
        """Return the rows of a mask."""
        if pc.all(mask, skip_nulls=False).as_py():  # as it should be: nothing has to be copied
            return self
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        chosen = mask.to_numpy(zero_copy_only=False)
        of_messages, is_vague = self.of_messages[chosen], None if self.is_vague is None else self.is_vague[chosen]
        clocks = [clock for clock, is_its in zip(self.clocks, chosen, strict=True) if is_its] if self.clocks else None
        its = {"columns": columns, "of_messages": of_messages, "is_vague": is_vague, "clocks": clocks}
        return replace(self, file=self.file[chosen], line=self.line[chosen], **its)


@dataclass(kw_only=True)
class Rows(Events):
    """Events whose processes are indices, as arrays of one length; `columns` has the other columns.

    `message` is a place in `messages`, and in `own_numbers` if these names may be those that busq gives, -1 for none;
    `sender` is -1 for none.  Destinations stand one after the other in `to`, `lengths` of them for each row; `tells`:
    the log names destinations there.  `positions` are those of rows in order, if the log has them; `is_tied` marks
    those whose place among others of their process is not known, if there are any.
    """

    process: Any
    kind: Any
    message: Any
    sender: Any
    to: Any
    lengths: Any
    tells: Any
    messages: Any
    own_numbers: Any = None
    positions: Any = None
    is_tied: Any = None

    @property
    def is_send(self) -> Any:
        """Mask of sends."""
        return self.kind == int(Kind.SEND)

    @property
    def is_delivery(self) -> Any:
        """Mask of deliveries, first or repeated."""
        return (self.kind == int(Kind.DELIVER)) | (self.kind == int(Kind.REDELIVER))

    @property
    def keys(self) -> Any:
        """A number for each pair of process and name of a message; without meaning where there is no message."""
        return self.process.astype(np.int64) * (len(self.messages) + 1) + self.message + 1

    @property
    def owners(self) -> Any:
        """The row of each destination."""
        return np.repeat(np.arange(len(self.kind)), self.lengths)

    def arrange(self, order: Any) -> None:
        """Put these rows in this order; those that are not in it are gone.

        They are moved column by column, one on each core, so that a large run is never there twice.
        """
        lengths = self.lengths[order]
        ends = np.cumsum(lengths)
        starts = (np.cumsum(self.lengths) - self.lengths)[order]
        places = np.repeat(starts - ends + lengths, lengths)
        places += np.arange(len(places))
        self.to, self.lengths = self.to[places], lengths
        del places
        chosen = pa.array(order)

        def move(name: str) -> None:
            if name in self.columns:
                self.columns[name] = self.columns[name].take(chosen)
            else:
                setattr(self, name, getattr(self, name)[order])

        side_by_side(move, [*_ARRAYS, *self.columns])
        self.clocks = [self.clocks[row] for row in order] if self.clocks else None
        self.is_tied = None if self.is_tied is None else self.is_tied[order]
        self.is_vague = None if self.is_vague is None else self.is_vague[order]
