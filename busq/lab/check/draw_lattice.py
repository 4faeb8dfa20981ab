# SPDX-License-Identifier: Apache-2.0
"""The lattice as a picture: orders down, properties across; it needs matplotlib."""

from __future__ import annotations

import os
from collections.abc import Iterable

from busq._util.files import naming
from busq.lab.check.lattice import Cell
from busq.lab.palette import INK
from busq.lab.sweep import draw

__all__ = ["draw_lattice"]

_KEPT = "#2a6f97"  # promised
_MORE = "#a9cfe3"  # kept all the same
_OPEN = "#f3e9c6"  # not seen to its end
_VACUOUS = "#eeeeee"
_NOT = "#ffffff"
_BROKEN = "#c8553d"  # promised, and not kept
_MEANINGS = {
    _KEPT: "promised, and kept",
    _MORE: "kept, though not promised",
    _VACUOUS: "vacuous: nothing within the bounds could break it",
    _OPEN: "?: not searched to its end",
    _NOT: "not implied: steps of a shortest counterexample",
    _BROKEN: "promised, and broken",
}


def _colour(cell: Cell) -> str:
    if not cell.holds:
        return _BROKEN if cell.claimed else _NOT
    return _VACUOUS if cell.vacuous else _OPEN if not cell.complete else _KEPT if cell.claimed else _MORE


def draw_lattice(cells: Iterable[Cell], path: str | os.PathLike[str]) -> None:
    """Draw which order keeps which property; a cell that is not implied has the steps of its counterexample.

    Errors: ValueError without cells; ImportError without matplotlib; OSError.

    >>> from busq.check import lattice
    >>> draw_lattice(lattice(["mfss"], ["causal", "synchronous"]), "lattice.svg")
    """
    found = {(cell.order, cell.name): cell for cell in cells}
    orders, names = ([*dict.fromkeys(key[place] for key in found)] for place in (0, 1))
    if not found:
        raise ValueError("cells: expected one or more")
    with draw.sheet() as pyplot:
        figure, axes = pyplot.subplots(
            figsize=(2.2 + 0.85 * len(names), 1.6 + 0.34 * len(orders)), layout="constrained"
        )
        for (order, name), cell in found.items():
            x, y, colour = names.index(name), orders.index(order), _colour(cell)
            axes.add_patch(pyplot.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="#cccccc"))
            ink = "white" if colour in (_KEPT, _BROKEN) else INK
            axes.text(x, y, cell.text, ha="center", va="center", color=ink, fontsize=9)
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.set_ylim(len(orders) - 0.5, -0.5)
        axes.set_xticks(range(len(names)), names, rotation=30, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(orders)), orders)
        axes.tick_params(length=0, labeltop=True, labelbottom=False, colors=INK)
        axes.spines[:].set_visible(False)
        used = {_colour(cell) for cell in found.values()}
        marks = [
            pyplot.Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor="#cccccc", label=text)
            for colour, text in _MEANINGS.items()
            if colour in used
        ]
        figure.legend(handles=marks, loc="outside lower left", fontsize=8, frameon=False, ncols=1 + (len(names) > 4))
        with naming(path):
            figure.savefig(path, dpi=160)
