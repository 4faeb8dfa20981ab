# SPDX-License-Identifier: Apache-2.0
"""Tables that a catalog knows: the public name of `busq.audit.spark.tables.catalog`."""

from busq.audit.spark.tables.catalog import *
from busq.audit.spark.tables.catalog import __all__ as __all__
