# SPDX-License-Identifier: Apache-2.0
from busq.audit.spark.views import *
