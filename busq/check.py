# SPDX-License-Identifier: Apache-2.0
"""Every execution of an order within a bound: the public name of `busq.lab.check`."""

from busq.lab.check import *
from busq.lab.check import __all__ as __all__
