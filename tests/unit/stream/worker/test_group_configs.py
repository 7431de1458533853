"""Configs of the group that an application gives."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.admin.admin_types import Resource
from headrace.protocol.errors import PolicyViolationError
from headrace.stream.config import StreamsConfig
from headrace.stream.worker.group_configs_io import use_group_configs


class Altered:
    """An admin client that notes what it is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.changes: list[Any] = []

    def alter_configs(self, changes: Any) -> Altered:
        self.changes.append(changes)
        return self

    def raise_for_errors(self) -> None:
        if self.error is not None:
            raise self.error


def test_only_given_group_configs_are_set() -> None:
    admin: Any = Altered()
    use_group_configs(
        admin, StreamsConfig.of({"num.standby.replicas": 1}, application_id="app", warmup_replicas=0)
    )
    assert admin.changes == [
        {Resource.group("app"): {"streams.num.standby.replicas": "1", "streams.num.warmup.replicas": "0"}}
    ]


def test_without_such_keys_the_group_is_left_alone() -> None:
    admin: Any = Altered()
    use_group_configs(admin, StreamsConfig.of({}, application_id="app"))
    assert admin.changes == []


def test_a_refused_config_ends_the_start() -> None:
    """Such as more standbys than the cluster allows."""
    admin: Any = Altered(PolicyViolationError("too many"))
    with pytest.raises(PolicyViolationError, match="too many"):
        use_group_configs(admin, StreamsConfig.of({"acceptable.recovery.lag": 5}, application_id="app"))
