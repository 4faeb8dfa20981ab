# SPDX-License-Identifier: Apache-2.0
"""Vector clocks on Spark: the public name of `busq.audit.spark.clocks`."""

from busq.audit.spark.clocks import *
from busq.audit.spark.clocks import __all__ as __all__
