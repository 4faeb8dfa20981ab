# SPDX-License-Identifier: Apache-2.0
"""Times on Spark: the public name of `busq.audit.spark.large_run.latencies`."""

from busq.audit.spark.large_run.latencies import *
from busq.audit.spark.large_run.latencies import __all__ as __all__
