"""Commits the processed offsets of a stream to a group, for lag monitoring."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ..pipeline.pool_io import shared_cluster
from ..sync.admin_io import Admin

if TYPE_CHECKING:
    from ..pipeline.offsets import Offsets
    from ..pipeline.source_options import ReadOptions

log = logging.getLogger("headrace.client.spark")

TIMEOUT_S = 2.0
# After a failure, the pause before the next attempt.
PAUSE_S = 30.0


class GroupProgress:
    """The progress of kafka.group.id, if set. The stream does not use these offsets, so failures are only
    logged."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._published: Offsets = {}
        self._not_before_s = 0.0

    def publish(self, offsets: Offsets) -> None:
        """Commit the changed offsets."""
        group_id = self._options.group_id
        news = {tp: offset for tp, offset in offsets.items() if self._published.get(tp) != offset}
        if group_id is None or not news or time.monotonic() < self._not_before_s:
            return
        try:
            with (
                shared_cluster(self._options.bootstrap, self._options.client) as cluster,
                Admin(cluster) as admin,
            ):
                admin.alter_group_offsets(group_id, news, create=True, timeout=TIMEOUT_S).raise_for_errors()
        except (HeadraceError, TimeoutError) as error:
            self._not_before_s = time.monotonic() + PAUSE_S
            log.warning("committing the progress of the stream to group %r failed: %s", group_id, error)
        else:
            self._published.update(news)
