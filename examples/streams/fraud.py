"""A fraud rule in a processor of its own: more than LIMIT within a minute on one card gives an alert.

A processor has a store, and may send any number of records at any time. Its punctuator runs every minute of
stream time, and deletes cards that were quiet, so that the store does not grow for ever.

Run: python examples/streams/fraud.py
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import common
from headrace import json, stream, utf8

LIMIT = 1000
MINUTE_MS = 60_000
STORE = "recent-payments"
# second, card, amount
PAYMENTS = [
    (0, "1111", 400),
    (5, "2222", 30),
    (20, "1111", 500),
    (50, "1111", 200),  # 1100 within 50 s
    (90, "2222", 990),  # the 30 are older than a minute
    (95, "3333", 1200),  # in one payment
    (200, "2222", 1),  # stream time goes on: the quiet cards are deleted
]


class Rule:
    """Keeps the payments of the last minute of each card: [[time in ms, amount], ...]."""

    def init(self, context: Any) -> None:
        """Called once for each task, before its first record."""
        self.context = context
        self.recent = context.state_store(STORE)
        context.schedule(timedelta(minutes=1), "stream", self.delete_quiet_cards)

    def process(self, record: stream.Record[str, Any]) -> None:
        """One payment. The alert has key, time and headers of the payment."""
        payments = [
            each for each in self.recent.get(record.key) or [] if each[0] > record.timestamp - MINUTE_MS
        ]
        payments.append([record.timestamp, record.value["amount"]])
        self.recent.put(record.key, payments)
        total = sum(amount for _, amount in payments)
        if total > LIMIT:
            alert = {"total": total, "payments": len(payments)}
            self.context.forward(record._replace(value=alert))

    def delete_quiet_cards(self, now_ms: int) -> None:
        """The punctuator. An iterator over a store is closed by `with`."""
        with self.recent.all() as entries:
            quiet = [card for card, payments in entries if payments[-1][0] <= now_ms - MINUTE_MS]
        for card in quiet:
            self.recent.delete(card)


def app() -> stream.App:
    """The application."""
    made = stream.App("fraud", key=utf8, value=json, commit_interval_ms=100)
    made.add_store(stream.Store(STORE, key=utf8, value=json))
    made.stream("payments").process(Rule, STORE).to("alerts")
    return made


def main() -> None:
    """The alerts of a few payments."""
    with common.cluster("payments", "alerts") as cluster:
        with cluster.producer(key=utf8, value=json) as producer:
            for second, card, amount in PAYMENTS:
                producer.send("payments", {"amount": amount}, key=card, timestamp=second * 1000)
        with common.run(app(), cluster) as running:
            alerts = common.read(running, "alerts", lambda found: len(found) == 2, key=utf8, value=json)
    for alert in sorted(alerts, key=lambda alert: alert.timestamp):
        print(f"{alert.timestamp // 1000} s: card {alert.key} spent {alert.value['total']} within a minute")


if __name__ == "__main__":
    main()
