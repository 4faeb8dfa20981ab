# SPDX-License-Identifier: Apache-2.0
"""Whether Spark can run here, and a line of text where it can't."""

from __future__ import annotations

import importlib.util
import sys

from busq.errors import BusqError

__all__ = ["PACKAGES", "SparkFailed", "Unavailable", "is_loaded", "require"]

PACKAGES = ("pyspark", "pyarrow", "pandas")


class Unavailable(BusqError, ImportError):
    """Spark can't run here: a package, Java, or a newer Python is missing.  The text says which, and what to do."""


class SparkFailed(BusqError):
    """Spark did not start, or a job failed.  The text says why in a line, and where its log is."""


def is_loaded(module: str) -> bool:
    """Whether a module has been imported already.

    >>> is_loaded("sys")
    True
    """
    return module in sys.modules


def require() -> None:
    """Raise Unavailable where this Python is too old or a package is missing.  Java is looked for by a session.
    """
    if sys.version_info < (3, 11):
        raise Unavailable(
            f"busq.spark needs Python 3.11 or newer, and this is {sys.version_info[0]}.{sys.version_info[1]}: "
            "the rest of busq works without it, the audit in C included"
        )
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"busq.spark needs {', '.join(missing)}: pip install 'busq[spark]'")
