"""Log levels as configs of a node: described, altered, refused as a whole."""

import pytest
from headrace.protocol.errors import InvalidConfigError, InvalidRequestError
from headrace.protocol.messages.control import AlterConfigs, ConfigChange, ConfigResource
from headrace.storage_node.configs.logger_configs import alter_loggers, describe_loggers

HERE = ConfigResource(8, "1")
SET, DELETE, APPEND = 0, 1, 2


class FakeLoggers:
    """A root logger and a child; fulfils Loggers."""

    def __init__(self) -> None:
        self.set: dict[str, str | None] = {}

    def levels(self) -> dict[str, str]:
        return {"root": "INFO", "headrace.node": "WARN"}

    def set_level(self, name: str, level: str | None) -> None:
        self.set[name] = level


def altered(*changes: ConfigChange, name: str = "1", validate_only: bool = False) -> tuple[int, dict]:
    """The error code, and the levels that were set."""
    loggers = FakeLoggers()
    alter = AlterConfigs(ConfigResource(8, name), changes)
    result = alter_loggers(1, alter, loggers, validate_only=validate_only)
    return result.error_code, loggers.set


def test_each_logger_is_a_config_of_its_node() -> None:
    """With its effective level, from Kafka's source 6; another node does not have them."""
    described = describe_loggers(1, HERE, FakeLoggers())
    assert [(each.name, each.value, each.source) for each in described.entries] == [
        ("root", "INFO", 6),
        ("headrace.node", "WARN", 6),
    ]
    for name in ("2", "", "x"):
        described = describe_loggers(1, ConfigResource(8, name), FakeLoggers())
        assert (described.error_code, described.entries) == (InvalidRequestError.code, ())


def test_levels_are_set_and_deleted() -> None:
    """A deleted level is inherited; validate_only sets none."""
    changes = (ConfigChange("root", SET, "DEBUG"), ConfigChange("headrace.node", DELETE))
    assert altered(*changes) == (0, {"root": "DEBUG", "headrace.node": None})
    assert altered(*changes, validate_only=True) == (0, {})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (ConfigChange("headrace.node", SET, "LOUD"), InvalidConfigError),
        (ConfigChange("no.such.logger", SET, "INFO"), InvalidConfigError),
        (ConfigChange("root", DELETE), InvalidRequestError),
        (ConfigChange("headrace.node", APPEND, "INFO"), InvalidRequestError),
        (ConfigChange("root", SET, "INFO"), InvalidRequestError),
    ],
)
def test_one_invalid_change_refuses_all(change: ConfigChange, error: type) -> None:
    """Also a logger that is named twice."""
    assert altered(ConfigChange("root", SET, "DEBUG"), change) == (error.code, {})


def test_another_nodes_loggers_are_not_altered_here() -> None:
    """Clients send the request to the node that it names."""
    code, levels = altered(ConfigChange("root", SET, "DEBUG"), name="2")
    assert (code, levels) == (InvalidRequestError.code, {})
