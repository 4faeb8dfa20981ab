# SPDX-License-Identifier: Apache-2.0
"""Tables of Spark as the input of an audit, and verdicts as tables."""
