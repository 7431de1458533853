"""New event loops."""

from __future__ import annotations

import asyncio

from headrace.runtime.loop_io import new_event_loop


def test_each_call_gives_a_fresh_loop_that_runs() -> None:
    """Two loops, independent, and neither is left as the current one."""
    first, second = new_event_loop(), new_event_loop()
    try:
        assert first is not second
        assert first.run_until_complete(asyncio.sleep(0, "done")) == "done"
        assert second.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        first.close()
        second.close()


def test_uvloop_is_used_where_it_is_installed() -> None:
    """The tests' environment has uvloop, so that is what runs."""
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("uvloop")
