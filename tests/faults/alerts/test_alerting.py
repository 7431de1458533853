"""The fixture `fault` itself, with alerts that a list gives in place of Prometheus; and the durations of the
tested rules."""

from __future__ import annotations

import re

import pytest
from alerting import WINDOW_S, AlertWatch, Fault, shortened_rules
from headrace.services.telemetry.alert_rule import rules_file
from headrace.services.telemetry.alert_rules import RULE_GROUPS

WINDOW = re.compile(r"\[(\d+)[smh](?::(\d+)[smh])?\]")


class Script(AlertWatch):
    """The alerts of one look after the other; the last ones stay."""

    def __init__(self, *looks: set[str]) -> None:
        super().__init__(self, patience_s=0.2)  # type: ignore[arg-type]
        self._looks = list(looks)

    def alerts(self) -> set[str]:
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def evidence(self) -> str:
        return ""


def test_fault_passes_for_alerts_that_fire_and_stop() -> None:
    """Not all of them at the same time."""
    fault = Fault(["A", "B"])
    with fault(Script({"A"}, set(), {"A"}, {"B", "C"}, {"B"}, {"C"})) as fires:
        fires()
    assert fault.is_over


@pytest.mark.parametrize(
    ("looks", "message"),
    [
        ([{"A"}], "do not fire"),  # before the fault
        ([set(), set()], "fire"),
        ([set(), {"B"}], "fire"),
        ([set(), {"A"}], "do not fire"),  # after it
    ],
)
def test_fault_fails_otherwise(looks: list[set[str]], message: str) -> None:
    fault = Fault(["A"])
    with pytest.raises(AssertionError, match=rf"\('A',\) {message}"), fault(Script(*looks)) as fires:
        fires()
    assert not fault.is_over


def test_fault_fails_if_the_test_does_not_wait_for_all_its_alerts() -> None:
    fault = Fault(["A", "B"])
    with (
        pytest.raises(AssertionError, match=r"did not wait for \{'B'\}"),
        fault(Script(set(), {"A"})) as fires,
    ):
        fires("A")


def test_tested_rules_have_the_shipped_expressions() -> None:
    """But for their windows."""
    shipped, tested = rules_file(RULE_GROUPS, hold="1s"), shortened_rules()
    assert WINDOW.sub("[]", tested) == WINDOW.sub("[]", shipped)
    windows = [int(each) for found in WINDOW.findall(tested) for each in found if each]
    assert min(windows) == WINDOW_S < max(windows) < 300
