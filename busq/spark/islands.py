# SPDX-License-Identifier: Apache-2.0
"""What stamps do not settle: the public name of `busq.audit.spark.islands`."""

from busq.audit.spark.islands import *
from busq.audit.spark.islands import __all__ as __all__
