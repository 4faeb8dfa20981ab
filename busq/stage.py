# SPDX-License-Identifier: Apache-2.0
"""A network that its user conducts: the public name of `busq.lab.stage`."""

from busq.lab.stage import *
from busq.lab.stage import __all__ as __all__
