# SPDX-License-Identifier: Apache-2.0
"""How a state is kept alike by several processes: its transfer to late joiners, and the engine of a replica."""
