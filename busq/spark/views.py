# SPDX-License-Identifier: Apache-2.0
"""Views of groups on Spark: the public name of `busq.audit.spark.large_run.views`."""

from busq.audit.spark.large_run.views import *
from busq.audit.spark.large_run.views import __all__ as __all__
