"""What a stream has processed, told as the offsets of a group: tools that show lag see it then."""

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
# After a failure the stream is not held up again for so long.
PAUSE_S = 30.0


class GroupProgress:
    """Of kafka.group.id, if that is given. Nothing depends on these offsets, so no failure is an error."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._published: Offsets = {}
        self._not_before_s = 0.0

    def publish(self, offsets: Offsets) -> None:
        """Tell what is new."""
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
            log.warning("the progress of the stream is not told to group %r: %s", group_id, error)
        else:
            self._published.update(news)
