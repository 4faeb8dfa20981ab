# SPDX-License-Identifier: Apache-2.0
"""Vector clocks on Spark: the public name of `busq.audit.spark.large_run.vector_clocks`."""

from busq.audit.spark.large_run.vector_clocks import *
from busq.audit.spark.large_run.vector_clocks import __all__ as __all__
