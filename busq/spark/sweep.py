# SPDX-License-Identifier: Apache-2.0
"""Grids on Spark: the public name of `busq.audit.spark.sweep`."""

from busq.audit.spark.sweep import *
from busq.audit.spark.sweep import __all__ as __all__
