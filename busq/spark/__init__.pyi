# SPDX-License-Identifier: Apache-2.0
from busq.audit.spark import *
from busq.spark import catalog as catalog
from busq.spark import checks as checks
from busq.spark import clocks as clocks
from busq.spark import follow as follow
from busq.spark import huge as huge
from busq.spark import islands as islands
from busq.spark import load as load
from busq.spark import pace as pace
from busq.spark import results as results
from busq.spark import runs as runs
from busq.spark import sweep as sweep
from busq.spark import views as views
