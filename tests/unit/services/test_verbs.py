"""How long each command takes, and what it shows meanwhile: a new command is classified here."""

import inspect

import click
import pytest
from command_line import commands
from headrace.services.cli.progress import SHOWS_PROGRESS

# Until a signal; their output is what they do.
SERVICES = {
    *("console", "rest", "server controller", "server node", "stream run", "stream serve", "metadata shell"),
    *("verifiable consume", "verifiable produce"),
}
# Within about two seconds of a healthy cluster.
INSTANT = {
    *("acl create", "acl delete", "acl explain", "acl lint", "audit"),
    *("client-metrics alter", "client-metrics delete", "cluster api-versions", "cluster id", "completion"),
    *("config alter", "config keys", "deploy systemd", "feature set", "feature upgrade", "feature versions"),
    *("group delete", "group delete-offsets", "group reset", "group validate-regex", "kafka-tools"),
    *("metadata cat", "metadata find", "metadata log", "metadata ls", "metadata tree"),
    *("namespace delete", "namespace set", "node unregister", "partition elect", "partition recover"),
    *("quorum add-voter", "quorum remove-voter", "quota alter", "role create", "role delete", "role grant"),
    *("role revoke", "schema", "security ray-env", "server format", "storage format", "storage info"),
    *("storage random-uuid", "stream describe", "stream diff", "stream query", "stream reset"),
    *("telemetry dashboards", "telemetry rules", "telemetry targets", "token create", "token expire"),
    *("token renew", "topic add-partitions", "topic create", "topic delete", "topic delete-records"),
    *("txn abort", "txn abort-prepared", "user create", "user delete", "user passwd", "version"),
}
PROGRESS = {
    *("balance", "bench consume", "bench latency", "bench mixed", "bench produce", "consume"),
    *("debug bundle", "doctor", "down", "log dump", "node drain", "node remove", "partition move-dir"),
    *("partition reassign", "partition verify", "produce", "quickstart", "restart", "security rotate"),
    *("stream scale", "stream stop", "txn find-hanging", "up"),
}
WATCH = {
    *("acl list", "client-metrics describe", "client-metrics list", "cluster endpoints", "config describe"),
    *("feature list", "group describe", "group list", "group members", "group tasks", "lag", "log dirs"),
    *("namespace describe", "namespace list", "node list", "quorum status", "quota describe"),
    *("role describe", "role list", "security status", "server status", "status", "stream status"),
    *("stream top", "token list", "topic describe", "topic list", "topic offsets", "txn describe"),
    *("txn list", "txn producers", "user list"),
}
# Words of commands that show a state.
STATES = {"describe", "list", "status", "lag", "top"}
# `stream describe` shows a program; `stream top` repeats without an option; `balance --watch` moves replicas.
WITHOUT_WATCH = {"stream describe", "stream top"}


def has(command: click.Command, name: str) -> bool:
    return any(each.name == name for each in command.params)


def test_every_command_is_classified_once() -> None:
    """A new command: instant, a service, or with @watchable or quiet_option."""
    classes = (SERVICES, INSTANT, PROGRESS, WATCH)
    assert sorted(name for name, _ in commands()) == sorted(name for each in classes for name in each)


def test_commands_have_the_options_of_their_class() -> None:
    found = dict(commands())
    assert {name for name, command in found.items() if has(command, "is_quiet")} == PROGRESS
    marked = {name for name, command in found.items() if getattr(command.callback, SHOWS_PROGRESS, False)}
    assert marked == PROGRESS
    watched = {name for name, command in found.items() if has(command, "is_watched")}
    assert watched == WATCH - WITHOUT_WATCH


def test_commands_that_show_a_state_can_be_watched() -> None:
    states = {name for name, _ in commands() if STATES.intersection(name.split())}
    assert states - WITHOUT_WATCH <= WATCH


@pytest.mark.parametrize("name", sorted(PROGRESS))
def test_commands_with_progress_use_the_shared_display(name: str) -> None:
    """Their module, or the one that waits for them, opens a `progress_bar`."""
    command = dict(commands())[name]
    assert command.callback is not None
    module = inspect.getmodule(inspect.unwrap(command.callback))
    assert module is not None
    source = inspect.getsource(module)
    assert "progress_bar(" in source or "await_reassignments(" in source
