# SPDX-License-Identifier: Apache-2.0
"""Results as tables of a catalog: the public name of `busq.audit.spark.tables.results`."""

from busq.audit.spark.tables.results import *
from busq.audit.spark.tables.results import __all__ as __all__
