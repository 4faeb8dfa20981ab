# SPDX-License-Identifier: Apache-2.0
"""Times on Spark: the public name of `busq.audit.spark.pace`."""

from busq.audit.spark.pace import *
from busq.audit.spark.pace import __all__ as __all__
