# SPDX-License-Identifier: Apache-2.0
"""What stamps do not settle: the public name of `busq.audit.spark.large_run.islands`."""

from busq.audit.spark.large_run.islands import *
from busq.audit.spark.large_run.islands import __all__ as __all__
