# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a bus: the public name of `busq.ops.doctor`."""

from busq.ops.doctor import *
from busq.ops.doctor import __all__ as __all__
