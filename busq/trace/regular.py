# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that users write: Python's, with groups that may be named as elsewhere, `(?<host>...)`."""

from __future__ import annotations

import re

from busq.trace.errors import TraceError

__all__ = ["compiled", "of_javascript"]


def compiled(expression: str, what: str) -> re.Pattern[str]:
    """Compile an expression whose `^` and `$` match at lines; TraceError if that cannot be done.

    >>> compiled(r"(?<host>[^]]+)", "parser").search("ann] sent")["host"]
    'ann'
    """
    try:
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", expression), re.MULTILINE)
    except re.error as error:
        raise TraceError(f"the {what} {expression!r} is no regular expression: {error}") from None


def of_javascript(expression: str) -> str:
    """Return an expression of JavaScript as one of Python.

    >>> of_javascript("(?<host>[^]+)")
    '(?<host>[\\\\s\\\\S]+)'
    """
    return re.sub(r"\\k<(\w+)>", r"(?P=\1)", expression).replace("[^]", r"[\s\S]")
