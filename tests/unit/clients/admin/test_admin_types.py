"""Results of plural calls, and the values of the admin client."""

import pytest
from headrace.clients.admin.admin_types import Resource, Results
from headrace.protocol.errors import InvalidTopicError, TopicAlreadyExistsError


def test_results_are_a_mapping_that_raises_per_item() -> None:
    """A value, two errors."""
    results = Results({"a": 1, "b": TopicAlreadyExistsError("b exists"), "c": InvalidTopicError("c is bad")})
    assert results["a"] == 1
    with pytest.raises(TopicAlreadyExistsError):
        results["b"]
    with pytest.raises(KeyError):
        results["d"]
    assert list(results) == ["a", "b", "c"]
    assert len(results) == 3
    assert list(results.errors) == ["b", "c"]
    assert "b exists" in repr(results)


def test_raise_for_errors_groups_them_with_their_items() -> None:
    """Each error is noted with its item, once; nothing is raised when all went well."""
    results = Results({"a": 1, "b": TopicAlreadyExistsError("exists")})
    for _ in range(2):
        with pytest.raises(ExceptionGroup, match="1 of 2 items") as caught:
            results.raise_for_errors()
        assert caught.value.exceptions[0].__notes__ == ["for 'b'"]
    Results({"a": 1}).raise_for_errors()
    Results({}).raise_for_errors()


def test_resources() -> None:
    """By kind and name."""
    assert Resource.topic("t") == Resource("topic", "t")
    assert Resource.broker(3) == Resource("broker", "3")
    assert Resource.broker() == Resource("broker", "")
