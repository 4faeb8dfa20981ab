# SPDX-License-Identifier: Apache-2.0
"""A trace as a DataFrame: the public name of `busq.audit.spark.load`."""

from busq.audit.spark.load import *
from busq.audit.spark.load import __all__ as __all__
