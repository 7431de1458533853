"""Shared parts of commands: global options, which may also follow the command, errors, exit codes."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...clients.bootstrap import VARIABLE as BOOTSTRAP_VARIABLE
from ...protocol.errors import HeadraceError
from ..cluster_files_io import (
    DEFAULT_CLUSTER,
    UnknownClusterError,
    admin_config,
    known_clusters,
    read_cluster_file,
)
from ..discovery import CLUSTER_VARIABLE, chosen_cluster
from ..secured_files import parse_properties
from .output import NAME, OUTPUT_FORMATS, TEXT_FORMATS, OutputFormat, note

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

# In errors and help: 'many' is not a valid integer, in place of "integer range".
click.IntRange.name = "integer"
click.FloatRange.name = "number"

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_PARTIAL = 0, 1, 2, 3, 4
# Default client timeout on the command line: shorter than the minute of a program, as a person waits.
API_TIMEOUT_MS = 15_000
# If one of these is given, a command does not use the client file of the cluster's user `admin`.
_USER_KEYS = frozenset(
    ("security.protocol", "sasl.username", "username", "sasl.mechanism", "sasl.oauthbearer.token")
)
TRUSTED_KEYS = "trusted.server.keys.file"
EXIT_INTERRUPTED = 130  # 128 + SIGINT
_EFFECT = "headrace_effect"  # an attribute of the function behind a click command
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, which shells report when the reader of a pipe has ended


class PartialFailureError(HeadraceError):
    """A part of the work failed."""


class NotFoundError(HeadraceError):
    """A named resource does not exist."""


class Effect(Enum):
    """Whether a command changes a cluster. A command that may change something, even if only with some
    options, never falls back to a cluster that was not named."""

    READS = "reads"
    CHANGES = "changes"


@dataclass
class Settings:
    """The global options, from before or after the command's name, and the effect of that command."""

    bootstrap: str | None = None
    config: dict[str, str] = field(default_factory=dict)
    command_config: dict[str, str] = field(default_factory=dict)
    form: OutputFormat = "text"
    cluster: str | None = None
    is_debug: bool = False
    is_quiet: bool = False
    effect: Effect = Effect.CHANGES
    _fallback: str | None = (
        None  # the cluster of a reading command, if none was named and the default is down
    )

    @property
    def is_text(self) -> bool:
        """Whether the output is for people: a table or lines, in place of JSON or YAML."""
        return self.form in TEXT_FORMATS

    @property
    def cluster_name(self) -> str:
        """The name of the selected cluster of this machine."""
        return self.cluster or os.environ.get(CLUSTER_VARIABLE) or DEFAULT_CLUSTER

    def client_config(self) -> dict[str, str]:
        """The -X pairs over the file of --command-config as client config; clients time out sooner on the
        command line than in a program.

        The user is `admin` of a secured cluster of this machine, unless -X, the file, the environment or -b
        name another one or another place; for another user the keys of its servers are those of that cluster.
        """
        return {**self.client_config_without_pairs(), **self.config}

    def given_config(self) -> dict[str, str]:
        """The file of --command-config, overridden by -X pairs."""
        return {**self.command_config, **self.config}

    def client_config_without_pairs(self) -> dict[str, str]:
        """The client config of a command whose -X pairs are something else."""
        return {**client_defaults(), **self._machine_config(), **self.command_config}

    def _machine_config(self) -> dict[str, str]:
        """The client config of a secured cluster of this machine, but for what is given; empty elsewhere."""
        if self.bootstrap or (not self.cluster and os.environ.get(BOOTSTRAP_VARIABLE)):
            return {}
        try:
            found = admin_config(read_cluster_file(self._chosen_cluster()).data_dir)
        except UnknownClusterError:
            return {}  # `addresses` reports it
        if not self._is_given(*_USER_KEYS):
            return found
        is_plain = self.given_config().get("security.protocol") == "PLAINTEXT"
        if is_plain or TRUSTED_KEYS not in found or self._is_given("server.public.key", TRUSTED_KEYS):
            return {}
        return {TRUSTED_KEYS: found[TRUSTED_KEYS]}

    def _is_given(self, *keys: str) -> bool:
        """Whether -X, the file or the environment have one of these keys."""
        given = {name.replace("_", ".") for name in self.given_config()}
        variables = (f"HEADRACE_{name.replace('.', '_').upper()}" for name in keys)
        return not given.isdisjoint(keys) or any(name in os.environ for name in variables)

    def addresses(self) -> str | None:
        """Bootstrap addresses: -b, or those of the selected cluster of this machine; None if the clients read
        them from HEADRACE_BOOTSTRAP.

        Errors: click.UsageError for both -b and --cluster; UnknownClusterError; NotFoundError while the
        cluster has no address yet.
        """
        if self.bootstrap and self.cluster:
            raise click.UsageError("-b and --cluster exclude each other")
        if self.bootstrap or (not self.cluster and os.environ.get(BOOTSTRAP_VARIABLE)):
            return self.bootstrap
        name = self._chosen_cluster()
        known = read_cluster_file(name).bootstrap
        if not known:
            raise NotFoundError(
                f"cluster {name!r} is still starting: wait for `headrace up` to finish, or repeat it if it "
                "was interrupted"
            )
        return ",".join(known)

    def _chosen_cluster(self) -> str:
        """As `chosen_cluster`; but if no cluster was named and the default one is not up, a reading command
        uses the only cluster of this machine, and prints a note, once. Errors: UnknownClusterError."""
        if self._fallback is not None:
            return self._fallback
        name, known = self.cluster_name, known_clusters()
        is_named = bool(self.cluster or os.environ.get(CLUSTER_VARIABLE))
        if self.effect is Effect.READS and not is_named and name not in known and len(known) == 1:
            note(f"no cluster {name!r} is up: reading from cluster {known[0]!r} (--cluster names one)")
            self._fallback = known[0]
            return known[0]
        return chosen_cluster(name, known, "--cluster")


def find_settings() -> Settings:
    """Those of the running command; the defaults outside of one."""
    context = click.get_current_context(silent=True)
    return Settings() if context is None else context.find_object(Settings) or Settings()


def client_defaults() -> dict[str, str]:
    """Client config of the command line, unless environment variables override it."""
    is_set = "HEADRACE_DEFAULT_API_TIMEOUT_MS" in os.environ
    return {} if is_set else {"default.api.timeout.ms": str(API_TIMEOUT_MS)}


def key_value_pairs(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """`key=value` texts as a dictionary. Errors: click.BadParameter."""
    pairs: dict[str, str] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{text!r} is not key=value", context, option)
        pairs[name.strip()] = value.strip()
    return pairs


def config_of_file(
    context: click.Context, option: click.Parameter, path: str | None
) -> dict[str, str] | None:
    """The client config in a file of lines key=value. Errors: click.BadParameter."""
    if path is None:
        return None
    try:
        return parse_properties(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"cannot read {path}: {error}", context, option) from error


def bootstrap_option(command: F) -> F:
    """-b: bootstrap addresses; --command-config: a file with the config of the client that connects there."""
    with_file = click.option(
        "--command-config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        callback=config_of_file,
        help="Client config, lines of key=value, as of Kafka's tools; -X overrides it.",
    )(command)
    return click.option(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="Bootstrap addresses of storage nodes [default: HEADRACE_BOOTSTRAP, or those of --cluster].",
    )(with_file)


def config_option(command: F) -> F:
    """-X key=value, repeated."""
    return click.option(
        "-X",
        "config",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_value_pairs,
        help="Set a config key, of the client unless the command says otherwise; repeatable.",
    )(command)


def form_option(command: F) -> F:
    """-o, with OUTPUT_FORMATS."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(OUTPUT_FORMATS), help="Format of the output."
    )(command)


def list_form_option(command: F) -> F:
    """-o, also with `name`: the first column alone, for other commands."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([*OUTPUT_FORMATS, NAME]),
        help="Format of the output; name: only the names, one per line.",
    )(command)


def cluster_option(command: F) -> F:
    """--cluster: the name of a cluster of this machine."""
    return click.option(
        "--cluster",
        metavar="NAME",
        shell_complete=lambda _context, _option, text: [x for x in known_clusters() if x.startswith(text)],
        help="Name of a cluster of this machine [default: HEADRACE_CLUSTER, or default].",
    )(command)


def debug_option(command: F) -> F:
    """--debug: tracebacks."""
    return click.option("--debug", "is_debug", is_flag=True, help="Print the traceback of an error.")(command)


def reading_command(*options: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Declare that a command changes nothing, and add global options; see `_command`."""
    return _command(Effect.READS, options)


def changing_command(*options: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Declare that a command may change a cluster, and add global options; see `_command`."""
    return _command(Effect.CHANGES, options)


def effect_of(command: click.Command) -> Effect | None:
    """The declared effect of a command; None for a command group."""
    return getattr(command.callback, _EFFECT, None)


def _command(
    effect: Effect, options: tuple[Callable[[Any], Any], ...]
) -> Callable[[Callable[..., Any]], Any]:
    """Add global options to a command; its first argument becomes a `Settings`.

    Options after the command's name override those before it; -X pairs add up. An option before the name that
    has no effect on the command is a usage error.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        @click.pass_context
        @functools.wraps(command)
        def wrapped(context: click.Context, /, **given: Any) -> Any:
            settings: Settings = context.find_object(Settings) or Settings()
            absorb(settings, given)
            settings.effect = effect
            for flag, option, value in (
                ("-b", bootstrap_option, settings.bootstrap),
                ("--command-config", bootstrap_option, settings.command_config),
                ("-X", config_option, settings.config),
                ("--cluster", cluster_option, settings.cluster),
            ):
                if value and option not in options:
                    raise click.UsageError(f"{flag} has no effect on `{context.command_path}`", context)
            if settings.form == NAME and list_form_option not in options:
                raise click.UsageError(f"`{context.command_path}` has no -o name", context)
            return context.invoke(command, settings, **given)

        result: Any = wrapped
        setattr(result, _EFFECT, effect)
        for option in reversed((*options, debug_option)):
            result = option(result)
        return result

    return decorate


def absorb(settings: Settings, given: dict[str, Any]) -> None:
    """Move the global options out of `given` into `settings`."""
    settings.bootstrap = given.pop("bootstrap", None) or settings.bootstrap
    settings.config.update(given.pop("config", None) or {})
    settings.command_config.update(given.pop("command_config", None) or {})
    settings.form = given.pop("form", None) or settings.form
    settings.cluster = given.pop("cluster", None) or settings.cluster
    settings.is_debug = given.pop("is_debug", False) or settings.is_debug
    settings.is_quiet = given.pop("is_quiet", False) or settings.is_quiet
