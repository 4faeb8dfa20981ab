# SPDX-License-Identifier: Apache-2.0
"""Small applications of ordered messages, to run and to read: a chat, a replicated store, three people."""
