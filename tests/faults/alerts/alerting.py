"""What tests of alert rules share: the tested rules, a Prometheus that watches a cluster, and `fault`.

The tested rules are the shipped ones, with the same expressions and thresholds. Only durations are shorter:
windows are divided by DIVISOR, or by that of the rule in DIVISORS, but have at least WINDOW_S,
which is several scrapes; `for` is HOLD.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.services.telemetry.alert_rule import AlertRule, rules_file
from headrace.services.telemetry.alert_rules import RULE_GROUPS
from prometheus_server import PrometheusServer, prometheus
from waiting import PATIENCE_S, wait_for

DIVISOR = 60
DIVISORS = {
    "HeadraceReassignmentStuck": 600,  # of an hour
    "HeadraceConsumerLagGrows": 300,
    "HeadraceServerRestarts": 30,  # three restarts, on a busy machine
    "HeadraceQuorumElections": 15,  # four elections
    "HeadraceIsrFlapping": 15,  # four intervals with a fault of some seconds
}
WINDOW_S = 6
HOLD = "1s"
INTERVAL = "1s"  # of scrapes and evaluations
UNITS_S = {"s": 1, "m": 60, "h": 3600}
Fires = Callable[..., None]


def shortened_rules() -> str:
    """The rule file of the tests."""
    groups = [(name, [_shortened(rule) for rule in rules]) for name, rules in RULE_GROUPS]
    return rules_file(groups, hold=HOLD)


def _shortened(rule: AlertRule) -> AlertRule:
    divisor = DIVISORS.get(rule.name, DIVISOR)

    def shorter(match: re.Match[str]) -> str:
        return f"{max(int(match[1]) * UNITS_S[match[2]] // divisor, WINDOW_S)}s"

    def window(match: re.Match[str]) -> str:
        return DURATION.sub(shorter, match[0])

    return replace(rule, expression=WINDOW.sub(window, rule.expression))


DURATION = re.compile(r"(\d+)([smh])")
WINDOW = re.compile(r"\[\d+[smh](:\d+[smh])?\]")


class AlertWatch:
    """A Prometheus with the tested rules."""

    def __init__(self, server: PrometheusServer, patience_s: float = PATIENCE_S) -> None:
        self.server, self._patience_s = server, patience_s

    def wait_firing(self, *names: str, each: Callable[[], object] | None = None) -> None:
        """Wait until each of these alerts has fired since the call; `each` is called again and again."""
        fired: set[str] = set()

        def is_so() -> bool:
            if each is not None:
                each()
            fired.update(self.server.alerts())
            return fired >= set(names)

        wait_for(is_so, f"{names} fire", self._patience_s, lambda: f"{fired} {self.server.evidence()}")

    def wait_quiet(self, *names: str) -> None:
        """Wait until none of these alerts fires."""
        wait_for(
            lambda: not self.server.alerts() & set(names),
            f"{names} do not fire",
            self._patience_s,
            lambda: f"{self.server.alerts()} {self.server.evidence()}",
        )


class Fault:
    """One fault: the alerts of a test are quiet before it, fire during it, and are quiet after it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.is_over = False

    @contextlib.contextmanager
    def __call__(self, watch: AlertWatch) -> Iterator[Fires]:
        """The body causes the fault, calls what it got, and ends the fault."""
        left = set(self._names)

        def fires(*names: str, each: Callable[[], object] | None = None) -> None:
            """Wait until these alerts fire, or all of the test."""
            assert set(names) <= set(self._names), names
            watch.wait_firing(*(names or self._names), each=each)
            left.difference_update(names or self._names)

        watch.wait_quiet(*self._names)
        yield fires
        assert not left, f"the test did not wait for {left}"
        watch.wait_quiet(*self._names)
        self.is_over = True


@contextlib.contextmanager
def alert_watch(folder: Path, urls: Sequence[str], interval: str = INTERVAL) -> Iterator[AlertWatch]:
    """A Prometheus that scrapes these endpoints."""
    rules = folder / "rules.yml"
    rules.write_text(shortened_rules())
    with prometheus(folder / "prometheus", {"headrace": urls}, [rules], interval) as server:
        server.wait_for(f"sum(up) == {len(urls)}", "all servers are scraped")
        yield AlertWatch(server)
