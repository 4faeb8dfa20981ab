# SPDX-License-Identifier: Apache-2.0
"""One huge run: the public name of `busq.audit.spark.huge`."""

from busq.audit.spark.huge import *
from busq.audit.spark.huge import __all__ as __all__
