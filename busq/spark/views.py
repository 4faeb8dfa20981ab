# SPDX-License-Identifier: Apache-2.0
"""Views of groups on Spark: the public name of `busq.audit.spark.views`."""

from busq.audit.spark.views import *
from busq.audit.spark.views import __all__ as __all__
