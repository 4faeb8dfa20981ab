# SPDX-License-Identifier: Apache-2.0
"""The colours of space-time diagrams."""

from __future__ import annotations

__all__ = [
    "CONTROL",
    "CONTROL_TEXT",
    "GREY",
    "HELD",
    "INK",
    "JOB",
    "LINE",
    "PAST",
    "RED",
    "SECRET",
    "SENDERS",
    "WAITING",
]

SENDERS = ("#1f5f99", "#24845f", "#7d52b5", "#9a6d05", "#007f8c", "#b0478f", "#55636e", "#5d7f1c")
INK, LINE, CONTROL, CONTROL_TEXT = "#222222", "#444444", "#9a9a9a", "#707070"
WAITING, HELD, JOB = "#e9b949", "#ffffff", "#7fb685"
RED, PAST, SECRET, GREY = "#d1231c", "#e27b36", "#f3ecdc", "#555555"
