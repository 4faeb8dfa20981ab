# SPDX-License-Identifier: Apache-2.0
"""A trace as a DataFrame: the public name of `busq.audit.spark.large_run.load`."""

from busq.audit.spark.large_run.load import *
from busq.audit.spark.large_run.load import __all__ as __all__
