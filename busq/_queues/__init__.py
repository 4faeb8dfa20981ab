# SPDX-License-Identifier: Apache-2.0
"""What queues (busq/queues.py) are made of: how objects stand in them, and what a process keeps for its queues."""
