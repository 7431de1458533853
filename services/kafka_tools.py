"""The tools of Apache Kafka 4.3 and the commands that do the same here: `headrace kafka-tools`. Pure.

A test parses every command line of the table by the real commands, and runs them on a cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from .kafka_tools_data import (
    GROUP_TOOLS,
    OPERATION_TOOLS,
    OTHER_TOOLS,
    RECORD_TOOLS,
    SECURITY_TOOLS,
    TOPIC_TOOLS,
)


class ToolRow(NamedTuple):
    """A use of a tool of Kafka's and the command line that does the same.

    Without an equivalent `command` is empty and `remark` says why.
    """

    tool: str
    options: str
    command: str
    remark: str

    @property
    def kafka(self) -> str:
        """The command line of Kafka's tool, without the address of the cluster."""
        return f"{self.tool}.sh {self.options}".rstrip()

    @property
    def is_absent(self) -> bool:
        """Whether headrace has no such command."""
        return not self.command


def table() -> list[ToolRow]:
    """All rows, by tool; the first row of a tool is its main use."""
    parts = (TOPIC_TOOLS, RECORD_TOOLS, GROUP_TOOLS, OPERATION_TOOLS, SECURITY_TOOLS, OTHER_TOOLS)
    found = []
    for part in parts:
        for tool, uses in part.items():
            for use in uses:
                options, command, *remark = use
                found.append(ToolRow(tool, options, command, remark[0] if remark else ""))
    return found


def tool_name(text: str) -> str:
    """The name of a tool without path and suffix: kafka-topics for bin/kafka-topics.sh."""
    return text.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat")
