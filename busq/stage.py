# SPDX-License-Identifier: Apache-2.0
"""A network that its user conducts: the public name of `busq.lab.stage`, and of its page."""

from busq.lab.stage import Packet, Stage, Stuck
from busq.lab.stage_page.page import show

__all__ = ["Packet", "Stage", "Stuck", "show"]
