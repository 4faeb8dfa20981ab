# SPDX-License-Identifier: Apache-2.0
"""Leftovers in the directory of buses: the public name of `busq.ops.leftovers`."""

from busq.ops.leftovers import *
from busq.ops.leftovers import __all__ as __all__
