"""The model of the joining application: equal to the application itself in the test driver."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import joining_app
from headrace.stream import TestDriver
from join_model import PARTITIONS, Expected, endings, events, processed

BEGIN_MS = 1_790_000_000_000


def test_application_results_equal_the_model() -> None:
    """One partition after the other, in the order of the model: all pairs in their order, all records without
    a partner, and all values of both aggregations."""
    given = list(islice(events(BEGIN_MS, seed=1), 1_500))
    given += endings(given[-1].at_ms)
    expected = Expected(given)
    assert all(expected.alone.values())
    chains: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    for partition in range(PARTITIONS):
        app = joining_app.app()
        settings = replace(app.settings, max_task_idle_ms=-1)  # the model decides which record is next
        with TestDriver(app, settings=settings, cache_bytes=0) as driver:
            for event in processed(each for each in given if each.partition == partition):
                driver.input_topic(event.side).pipe_input(event.user, event.value, event.at_ms)
            records = driver.output_topic(joining_app.JOINED).read_records()
            found = [(each.key, each.value, each.timestamp) for each in records]
            assert [each for each in found if not joining_app.is_alone(each[1])] == expected.pairs[partition]
            alone = [each for each in found if joining_app.is_alone(each[1])]
            assert (len(alone), set(alone)) == (len(set(alone)), expected.alone[partition])
            for key, value in driver.output_topic(joining_app.CHAINED).read_key_values():
                chains.setdefault(key, []).append(value)
            counted = driver.output_topic(joining_app.COUNTED).read_key_values_to_map()
            for key, count in counted.items():
                counts[key] = counts.get(key, 0) + count
    assert chains == expected.chains
    assert counts == {key: values[-1] for key, values in expected.counts.items()}
    assert all(values == list(range(1, len(values) + 1)) for values in expected.counts.values())
