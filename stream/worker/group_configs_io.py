"""Configs of the streams group that an application gives: the coordinator assigns standbys and warm-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.admin_types import Resource

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ..config import StreamsConfig


def use_group_configs(admin: Admin, config: StreamsConfig) -> None:
    """Set what the application gives; the other configs of the group stay. Errors: HeadraceError, such as
    PolicyViolationError for more standbys than the cluster allows."""
    given = {
        "streams.num.standby.replicas": config.standby_replicas,
        "streams.num.warmup.replicas": config.warmup_replicas,
        "streams.acceptable.recovery.lag": config.acceptable_recovery_lag,
    }
    wanted = {name: str(value) for name, value in given.items() if value >= 0}
    if wanted:
        admin.alter_configs({Resource.group(config.application_id): wanted}).raise_for_errors()
