# SPDX-License-Identifier: Apache-2.0
"""Observers of a history: the public name of `busq.lab.observers`."""

from busq.lab.observers import *
from busq.lab.observers import __all__ as __all__
