# SPDX-License-Identifier: Apache-2.0
"""The colours of figures; those of space-time diagrams are in `busq.lab.diagram.palette`."""

from __future__ import annotations

__all__ = ["BAR", "GRID", "INK"]

BAR, INK, GRID = "#2a6f97", "#333333", "#dddddd"
