# SPDX-License-Identifier: Apache-2.0
"""Many processes, judged: workloads replayed over a real bus, orders compared, processes killed."""
