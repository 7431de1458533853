"""`headrace group validate-regex`: checks an expression as the group coordinator will."""

from __future__ import annotations

import click

from .admin import open_admin
from .common import Settings, bootstrap_option, cluster_option, config_option, form_option, reading_command
from .output import note, print_object


@click.command("validate-regex")
@click.argument("expression")
@click.option("--topics", "shows_topics", is_flag=True, help="List the topics of the cluster that match.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def validate_regex(settings: Settings, *, expression: str, shows_topics: bool) -> None:
    """Check the expression of a subscription, in the syntax of RE2 (RE2/J in Kafka).

    Exit code 1 if it is invalid. Consumers of the protocol `consumer` send such expressions to the
    coordinator.
    """
    from ...runtime.regex import compile_regex

    regex = compile_regex(expression)
    topics = None
    if shows_topics:
        with open_admin(settings, settings.client_config()) as admin:
            topics = [item.name for item in admin.list_topics(internal=True) if regex.matches(item.name)]
    if settings.is_text and topics is None:
        note(f"valid: {expression}")
    else:
        print_object({"expression": expression, "topics": topics}, settings.form)
