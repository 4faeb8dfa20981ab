# SPDX-License-Identifier: Apache-2.0
from busq.lab.sim import *
