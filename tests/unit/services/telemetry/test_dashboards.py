"""Dashboards for Grafana, and the commands that print what monitoring needs."""

import json
import re
from pathlib import Path

import pytest
from command_line import CommandLine
from headrace.runtime.telemetry.table import series_names
from headrace.services.cli.telemetry import target_groups
from headrace.services.telemetry.alert_rules import ALERT_RULES
from headrace.services.telemetry.dashboards import DASHBOARDS, Dashboard
from promql import metrics_in, unknown_labels


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_panels_name_metrics_that_exist(dashboard: Dashboard) -> None:
    """Of the declared table, with the variables of the dashboard; no two panels are at one place."""
    places = set()
    for panel, made in zip(dashboard.panels, dashboard.as_json()["panels"], strict=True):
        for target, expression in zip(made["targets"], panel.expressions, strict=True):
            assert target["expr"] == expression
            found = metrics_in(expression)
            assert found, panel.title
            assert found - series_names() == set(), panel.title
            assert "$cluster" in expression
            assert not re.search(r"SELECT|CLUSTER", expression)
        places.add((made["gridPos"]["x"], made["gridPos"]["y"]))
    assert len(places) == len(dashboard.panels)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_panels_name_labels_that_exist(dashboard: Dashboard) -> None:
    """In selectors, groupings and legends: each is a label of a metric of the panel."""
    for panel in dashboard.panels:
        for expression, (_, legend) in zip(panel.expressions, panel.queries, strict=True):
            assert unknown_labels(expression, legend) == set(), panel.title


def test_planted_typing_error_is_found() -> None:
    size = "kafka_log_logmanager_logdirectorysize"
    assert unknown_labels(f'sum by (logDirectory) ({size}{{instance=~"a"}})', "{{logDirectory}}") == set()
    assert unknown_labels(f'sum by (directory) ({size}{{topic=""}})', "{{dir}}") == {
        "directory",
        "topic",
        "dir",
    }
    assert metrics_in('sum by (le) (rate(kafka_server_mistake_total{a="b"}[5m])) > 0') - series_names() == {
        "kafka_server_mistake_total"
    }


def test_dashboards_are_written_to_a_folder(command_line: CommandLine, tmp_path: Path) -> None:
    """One file each; a name prints one."""
    code, _, notes = command_line("telemetry", "dashboards", "--write", str(tmp_path / "d"))
    assert code == 0, notes
    files = sorted((tmp_path / "d").iterdir())
    assert [path.name for path in files] == sorted(f"headrace-{each.name}.json" for each in DASHBOARDS)
    _, shown, _ = command_line("telemetry", "dashboards", "nodes")
    assert json.loads(shown) == json.loads((tmp_path / "d" / "headrace-nodes.json").read_text())
    assert command_line("telemetry", "dashboards")[0] == 2


def test_rules_may_have_another_duration(command_line: CommandLine) -> None:
    """For tests of one's own alerting; nonsense is refused."""
    _, shown, _ = command_line("telemetry", "rules", "--for", "5s")
    assert shown.count("for: 5s\n") == len(ALERT_RULES)
    assert command_line("telemetry", "rules", "--for", "soon")[0] == 2


def test_targets_are_those_of_the_status() -> None:
    """By kind of server; servers that are down or have no endpoint are left out."""
    facts = {
        "nodes": [
            {"telemetry": {"prometheus": "http://10.0.0.1:9404/metrics"}},
            {"telemetry": {}},
            {"state": "down"},
        ],
        "controllers": [{"telemetry": {"prometheus": "https://10.0.0.2:9504/metrics"}}],
    }
    assert target_groups("c", facts) == [
        {"targets": ["10.0.0.2:9504"], "labels": {"job": "headrace-controllers", "cluster": "c"}},
        {"targets": ["10.0.0.1:9404"], "labels": {"job": "headrace-nodes", "cluster": "c"}},
    ]
    assert target_groups("c", {"nodes": [], "controllers": []}) == []
