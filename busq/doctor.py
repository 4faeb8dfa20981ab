# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a bus: the public name of `busq.ops.diagnosis`."""

from busq.ops.diagnosis import *
from busq.ops.diagnosis import __all__ as __all__
