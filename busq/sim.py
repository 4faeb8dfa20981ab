# SPDX-License-Identifier: Apache-2.0
"""The simulator: the public name of `busq.lab.sim`."""

from busq.lab.sim import *
from busq.lab.sim import __all__ as __all__
