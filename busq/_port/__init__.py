# SPDX-License-Identifier: Apache-2.0
"""How a peer is driven: from Python to the core and back, in threads and in event loops."""
