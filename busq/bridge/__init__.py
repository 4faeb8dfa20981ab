# SPDX-License-Identifier: Apache-2.0
"""Bridges to other machines: groups whose order a replicated stream of NATS JetStream carries.

One stream per *domain* is the order.  On each machine one bridge publishes what the peers of its bus send to wide
groups, and re-sends, in the order of the stream, what all machines have published.  docs/explanation/wide-groups.md has
what is promised, and why the rules are what they are.
"""
