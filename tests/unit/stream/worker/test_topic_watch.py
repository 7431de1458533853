"""The watch for topics that match a pattern, over a cluster in memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import utf8
from headrace.protocol.errors import RequestTimedOutError
from headrace.stream import App
from headrace.stream.errors import InternalTopicError
from headrace.stream.worker.planner_io import Planner
from headrace.stream.worker.topic_watch_io import TopicWatch
from stream_clients import FakeStreamsCluster
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.stream.worker.plan import AppPlan

HOUR_MS = 3_600_000
PATIENCE_S = 60.0


class Watched:
    """An application that counts the words of all topics that match a pattern, and the watch for them."""

    def __init__(self, pattern: str = "words-.*", max_age_ms: int = 10, **topics: int) -> None:
        self.cluster = FakeStreamsCluster(**topics)
        app = App("app", key=utf8, value=utf8)
        app.stream(re.compile(pattern)).group_by_key().count(store="store")
        configs = {"consumer": {"metadata.max.age.ms": max_age_ms}}
        self.planner = Planner(
            *(app.topology(), app.config, app.settings, self.cluster, configs, lambda _folder, _store: None)
        )
        with self.planner.admin() as admin:
            self.first = self.planner.first_plan(admin)
        self.plans: list[AppPlan] = []
        self.errors: list[BaseException] = []
        self.watch = TopicWatch(self.planner, self.first, self.plans.append, self.errors.append)
        self.watch.start()

    def wait_for_plans(self, count: int) -> list[dict[str, int]]:
        wait_for(lambda: len(self.plans) == count, f"{count} plans", PATIENCE_S)
        return [dict(plan.partitions) for plan in self.plans]


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    options: dict[str, Any] = getattr(request, "param", {})
    found = Watched(**options)
    yield found
    found.watch.close()


def test_created_and_deleted_topics_cause_new_plans(watched: Watched) -> None:
    """An error of the cluster delays only."""
    assert dict(watched.first.partitions) == {}
    watched.cluster.failures["admin.list_topics"] = [RequestTimedOutError("late")]
    watched.cluster.partitions["words-a"] = 2
    watched.wait_for_plans(1)
    watched.cluster.partitions["words-b"] = 1
    watched.wait_for_plans(2)
    del watched.cluster.partitions["words-b"]
    found = watched.wait_for_plans(3)
    assert found == [{"words-a": 2}, {"words-a": 2, "words-b": 1}, {"words-a": 2}]
    assert watched.plans[1].built.matched == {"words-a", "words-b"}
    assert (watched.errors, watched.cluster.created) == ([], [])


@pytest.mark.parametrize("watched", [{"pattern": ".*", "words": 1}], indirect=True)
def test_internal_topics_do_not_match(watched: Watched) -> None:
    """Those of Kafka, and those of the application: it would read its own changelog."""
    watched.cluster.partitions["app-store-changelog"] = 1
    watched.cluster.internal.add("__consumer_offsets")
    watched.cluster.partitions.update({"__consumer_offsets": 50, "others": 1})
    assert watched.wait_for_plans(1) == [{"words": 1, "others": 1}]


@pytest.mark.parametrize("watched", [{"max_age_ms": HOUR_MS}], indirect=True)
def test_a_change_of_the_group_has_topics_looked_for_at_once(watched: Watched) -> None:
    """And again soon: a node may list a topic later than the coordinator."""
    watched.watch.look_soon()
    watched.cluster.partitions["words-a"] = 1
    assert watched.wait_for_plans(1) == [{"words-a": 1}]


@pytest.mark.parametrize("watched", [{"words_a": 2}], indirect=True)
def test_topics_that_do_not_fit_end_the_watch(watched: Watched) -> None:
    """A wider one needs more partitions of the changelog."""
    watched.cluster.partitions["app-store-changelog"] = 2
    watched.cluster.partitions["words-b"] = 3
    wait_for(lambda: len(watched.errors) > 0, "the error", PATIENCE_S)
    assert isinstance(watched.errors[0], InternalTopicError)
    assert "app-store-changelog exists with 2 partitions" in str(watched.errors[0])
