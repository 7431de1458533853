"""Shell completion: scripts for bash, zsh and fish, and completion of names from the cluster.

The scripts are click's: with `_HEADRACE_COMPLETE` set they run `headrace`, which then prints completions of
the typed words instead of running a command.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class, shell_complete

from ...protocol.errors import HeadraceError
from .common import Effect, Settings, effect_of, reading_command
from .output import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...clients.sync.admin_io import Admin

COMPLETE_VARIABLE = "_HEADRACE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
ASK_TIMEOUT_MS = 1000  # Bound: the user waits at the prompt
_PROGRAM = "headrace"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@reading_command()
def completion(_settings: Settings, *, shell: str) -> None:
    """Print the completion script of a shell: for commands, options and names.

    \b
    bash: echo 'eval "$(headrace completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(headrace completion zsh)"' >> ~/.zshrc
    fish: headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click has a class for each of SHELLS"
    root = click.get_current_context().find_root().command
    write_line(found(root, {}, _PROGRAM, COMPLETE_VARIABLE).source())


def complete(cli: click.Command, instruction: str) -> int:
    """Run the instruction of the shell's script, the value of COMPLETE_VARIABLE such as `bash_complete`;
    returns the exit code."""
    return shell_complete(cli, {}, _PROGRAM, COMPLETE_VARIABLE, instruction)


def topic_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Topics of the cluster that the command line names, as `shell_complete` of an option or argument."""
    internal = incomplete.startswith("__")
    return _names(
        context, incomplete, lambda admin: (each.name for each in admin.list_topics(internal=internal))
    )


def group_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Groups of the cluster that the command line names."""
    return _names(context, incomplete, lambda admin: (each.group_id for each in admin.list_groups()))


def transactional_ids(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Transactional ids of the cluster that the command line names."""
    return _names(
        context, incomplete, lambda admin: (each.transactional_id for each in admin.list_transactions())
    )


def node_ids(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of the storage nodes of the cluster that the command line names, fenced ones too."""

    def ask(admin: Admin) -> Iterable[str]:
        return (str(node.node_id) for node in admin.describe_cluster(include_fenced=True).nodes)

    return _names(context, incomplete, ask)


def user_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Users with passwords of the cluster that the command line names."""
    return _names(context, incomplete, lambda admin: admin.describe_users())


def role_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Roles of the cluster that the command line names."""
    return _names(context, incomplete, lambda admin: admin.describe_roles())


def namespaces(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Prefixes of the namespaces of the cluster that the command line names."""
    return _names(context, incomplete, lambda admin: admin.describe_namespaces())


def subscription_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Subscriptions to client metrics of the cluster that the command line names."""

    def ask(admin: Admin) -> Iterable[str]:
        configured = admin.list_config_resources(configured_only=True)
        return (each.name for each in configured if each.kind == "client-metrics")

    return _names(context, incomplete, ask)


def feature_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Features of this version; no cluster is asked."""
    from ...protocol.metadata.features import SUPPORTED

    return sorted(name for name in SUPPORTED if name.startswith(incomplete))


def _names(context: click.Context, incomplete: str, ask: Callable[[Admin], Iterable[str]]) -> list[str]:
    """Names with the typed prefix; none if the cluster does not answer within ASK_TIMEOUT_MS."""
    from ...clients.sync.admin_io import Admin

    try:
        # A note about the selected cluster would appear in the typed line.
        with contextlib.redirect_stderr(io.StringIO()):
            settings = _settings(context)
            where = settings.addresses()
            config = {**settings.client_config(), "default.api.timeout.ms": str(ASK_TIMEOUT_MS)}
        with Admin(where, config=config) as admin:
            found = sorted(ask(admin))
    except (click.ClickException, HeadraceError, OSError, ValueError):
        return []
    return [name for name in found if name.startswith(incomplete)]


def _settings(context: click.Context) -> Settings:
    """-b, --cluster, -X and --command-config of the typed words: those after the command's name override
    those before."""
    given: dict[str, Any] = {"config": {}, "command_config": {}}
    step: click.Context | None = context
    while step is not None:
        for name in ("bootstrap", "cluster"):
            given[name] = given.get(name) or step.params.get(name)
        for name in ("config", "command_config"):
            given[name] = {**(step.params.get(name) or {}), **given[name]}
        step = step.parent
    return Settings(**given, effect=effect_of(context.command) or Effect.CHANGES)
