"""The pages of the console: their handlers by path."""

from __future__ import annotations

from . import cluster, groups, messages, more, moves, quotas, security, tails, topics, transactions

PAGES = (
    *cluster.PAGES,
    *topics.PAGES,
    *messages.PAGES,
    *tails.PAGES,
    *groups.PAGES,
    *transactions.PAGES,
    *moves.PAGES,
    *quotas.PAGES,
    *security.PAGES,
    *more.PAGES,
)
