# SPDX-License-Identifier: Apache-2.0
"""Space-time diagrams: the public name of `busq.lab.diagram`."""

from busq.lab.diagram import *
from busq.lab.diagram import __all__ as __all__
