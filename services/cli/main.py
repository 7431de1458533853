"""The `headrace` command: `headrace [-b HOST:PORT] [-X key=value] [-o text|wide|json|jsonl|yaml] COMMAND …`.

Results go to standard output, messages to standard error. Exit codes: 0 success, 1 error, 2 usage error, 3
not found, 4 partial failure, 130 interrupted. Ray is imported only by commands that start, stop or inspect a
cluster on it.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    ConfigError,
    GroupIdNotFoundError,
    HeadraceError,
    InvalidReplicationFactorError,
    KafkaError,
    LogDirNotFoundError,
    NoClusterError,
    NonEmptyGroupError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    ResourceNotFoundError,
    TopicAlreadyExistsError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    VoterNotFoundError,
)
from ...runtime.extras import MissingExtraError
from ..cluster_files_io import UnknownClusterError
from . import (
    acl,
    audit,
    balance,
    bench,
    client_metrics,
    cluster,
    cluster_info,
    completion,
    config,
    console,
    consume,
    debug,
    delegation_token,
    deploy,
    doctor,
    feature,
    group,
    kafka_tools,
    lag,
    logs,
    metadata,
    namespace,
    node,
    partition,
    produce,
    quickstart,
    quorum,
    quota,
    rest,
    role,
    schema,
    security,
    server,
    storage,
    stream,
    telemetry,
    topic,
    txn,
    user,
    verifiable,
)
from .common import (
    EXIT_BROKEN_PIPE,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NOT_FOUND,
    EXIT_OK,
    EXIT_PARTIAL,
    EXIT_USAGE,
    NotFoundError,
    PartialFailureError,
    Settings,
    absorb,
    bootstrap_option,
    cluster_option,
    config_option,
    debug_option,
    form_option,
    list_form_option,
    reading_command,
)
from .output import note, print_object

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_FOUND = (
    NotFoundError,
    NoClusterError,
    UnknownClusterError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    BrokerIdNotRegisteredError,
    VoterNotFoundError,
    GroupIdNotFoundError,
    TransactionalIdNotFoundError,
    ResourceNotFoundError,
    FileNotFoundError,
)

# Options of Kafka's tools, and their equivalents here.
_KAFKAS_OPTIONS = {
    "--bootstrap-server": "-b HOST:PORT, or --cluster NAME for a cluster of this machine",
    "--broker-list": "-b HOST:PORT, or --cluster NAME for a cluster of this machine",
    "--property": "-X KEY=VALUE; `headrace produce --help` and `consume --help` have the options of records",
    "--config": "-X KEY=VALUE with `topic create`; `headrace config alter --topic NAME --set KEY=VALUE`",
    "--topic": "topics are arguments: `headrace topic describe NAME`",
    "--group": "groups are arguments: `headrace group describe NAME`; `consume` has no group",
    "--from-beginning": "`consume` starts at the beginning; -o end starts at the end",
    "--max-messages": "-c COUNT",
    "--add-config": "`headrace config alter --topic NAME --set KEY=VALUE`",
    "--entity-type": "`headrace config describe --topic NAME`, --group NAME, --node ID or --cluster-wide",
}

_CONNECTION_HINT = (
    "is the cluster up, and its address right? `headrace status` shows a cluster of this machine, with -b"
    " another one"
)
_HINTS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (
        (UnknownTopicOrPartitionError,),
        "`headrace topic list` lists all topics; `headrace topic create NAME` creates one",
    ),
    (
        (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError),
        "`headrace topic describe NAME` shows the ISR of each partition, `headrace node list` the nodes",
    ),
    ((TopicAlreadyExistsError,), "`headrace topic describe NAME` shows the existing topic"),
    (
        (InvalidReplicationFactorError, BrokerIdNotRegisteredError),
        "`headrace node list` lists the nodes; `headrace up --nodes N` adds nodes",
    ),
    ((VoterNotFoundError,), "`headrace quorum status` shows the controllers"),
    ((LogDirNotFoundError,), "`headrace log dirs` shows the log dirs of the nodes"),
    ((GroupIdNotFoundError,), "`headrace group list` lists all groups"),
    ((NonEmptyGroupError, UnknownMemberIdError), "`headrace group members NAME` lists its members"),
    ((TransactionalIdNotFoundError,), "`headrace txn list` lists all transactional ids"),
    ((UnknownClusterError,), "`headrace up` starts a cluster; -b HOST:PORT connects to a remote one"),
    ((TimeoutError, ConnectionError), _CONNECTION_HINT),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@bootstrap_option
@config_option
@list_form_option
@cluster_option
@debug_option
@click.version_option(None, "--version", package_name="headrace", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context, /, **given: Any) -> None:
    """A partitioned commit log inside a Ray cluster."""
    settings = context.ensure_object(Settings)
    absorb(settings, given)


@cli.command()
@reading_command(form_option)
def version(settings: Settings) -> None:
    """Print the versions of headrace, Python and the libraries that it uses."""
    import platform
    from importlib.metadata import version as version_of

    from ...protocol.records.codec import codec_name

    names = ("headrace", "ray", "pyzmq", "msgspec")
    found = {"python": platform.python_version(), **{name: version_of(name) for name in names}}
    print_object({**found, "codec": codec_name()}, settings.form)


for _command in (
    cluster.up,
    cluster.down,
    cluster.status,
    cluster_info.cluster,
    cluster.restart,
    quorum.quorum,
    topic.topic,
    config.config,
    client_metrics.client_metrics,
    quota.quota,
    acl.acl,
    role.role,
    namespace.namespace,
    user.user,
    delegation_token.token,
    audit.audit,
    security.security,
    feature.feature,
    balance.balance,
    partition.partition,
    group.group,
    lag.lag,
    stream.group,
    txn.txn,
    node.node,
    produce.produce,
    consume.consume,
    console.console,
    logs.log,
    rest.rest,
    bench.bench,
    doctor.doctor,
    debug.debug,
    deploy.deploy,
    server.server,
    metadata.metadata,
    storage.storage,
    verifiable.verifiable,
    quickstart.quickstart,
    telemetry.telemetry,
    completion.completion,
    kafka_tools.kafka_tools,
    schema.schema,
):
    cli.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Every error becomes a line on standard error."""
    settings = Settings(is_debug="--debug" in arguments)
    try:
        return _invoke(arguments, settings)
    except BrokenPipeError:
        # the reader of the pipe has ended (`| head`): the interpreter's flush at exit must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.NoSuchOption) and error.option_name in _KAFKAS_OPTIONS:
            note(
                f"hint: {_KAFKAS_OPTIONS[error.option_name]}; `headrace kafka-tools` translates command lines"
            )
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as end:
        return _not_done(end)
    except ExceptionGroup as group:
        for other in group.exceptions[1:]:
            note(f"headrace: {message_of(other)}")
        return _report(group.exceptions[0], is_debug=settings.is_debug)
    except (HeadraceError, MissingExtraError, OSError, ValueError) as error:
        return _report(error, is_debug=settings.is_debug)


def _invoke(arguments: Sequence[str], settings: Settings) -> int:
    try:
        with cli.make_context("headrace", list(arguments), obj=settings) as context:
            cli.invoke(context)
    except click.exceptions.Exit as request:  # --help, and commands that exit with a code of their own
        return request.exit_code
    finally:
        sys.stdout.flush()
    return EXIT_OK


def main() -> None:
    """The console script; with COMPLETE_VARIABLE set, it runs shell completion."""
    instruction = os.environ.get(completion.COMPLETE_VARIABLE)
    sys.exit(completion.complete(cli, instruction) if instruction else run(sys.argv[1:]))


def exit_code_of(error: Exception) -> int:
    """The exit code for an error."""
    if isinstance(error, _NOT_FOUND):
        return EXIT_NOT_FOUND
    if isinstance(error, PartialFailureError):
        return EXIT_PARTIAL
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_ERROR


def message_of(error: Exception) -> str:
    """One line: the message, and the name of the Kafka error."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"{text} [{type(error).__name__}]" if isinstance(error, KafkaError) else text


def hint_of(error: Exception) -> str | None:
    """Advice for the user, where there is any; for the response of a server that a timeout followed."""
    if isinstance(error.__cause__, KafkaError):
        error = error.__cause__
    for kinds, hint in _HINTS:
        if isinstance(error, kinds):
            return hint
    return _CONNECTION_HINT if getattr(error, "code", 0) in (7, 13) else None


def _not_done(end: BaseException) -> int:
    """After Ctrl-C, or a question without the answer yes."""
    if isinstance(end, click.Abort) and not isinstance(end.__context__, KeyboardInterrupt):
        note("\nnot confirmed, nothing was changed; `--help` shows the option that replaces the question")
        return EXIT_ERROR
    note("interrupted")
    return EXIT_INTERRUPTED


def _report(error: Exception, *, is_debug: bool) -> int:
    if is_debug:
        traceback.print_exception(error)
    note(f"headrace: {message_of(error)}")
    hint = hint_of(error)
    if hint:
        note(f"hint: {hint}")
    return exit_code_of(error)
