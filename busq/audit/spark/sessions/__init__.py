# SPDX-License-Identifier: Apache-2.0
"""Sessions of Spark: started quietly, kept to a size, reached through Connect, looked at on a cluster."""
