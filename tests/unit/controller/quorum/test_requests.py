"""Requests in flight: one of a kind to a target, with timeout and backoff."""

from headrace.controller.quorum.requests import Requests


def a_few() -> tuple[Requests, list]:
    effects: list = []
    return Requests(effects, timeout_ms=100, backoff_ms=20), effects


def test_one_request_of_a_kind_to_a_target() -> None:
    """A second one waits for the response; other kinds and targets do not."""
    requests, effects = a_few()
    requests.send(1, "a", 0)
    requests.send(1, "b", 0)
    requests.send(2, "a", 0)
    requests.send(1, 7, 0)
    assert [(send.target, send.body) for send in effects] == [(1, "a"), (2, "a"), (1, 7)]
    sent = requests.take(effects[0].correlation_id)
    assert (sent.target, sent.body) == (1, "a")
    assert requests.take(effects[0].correlation_id) is None, "an answer counts once"
    requests.send(1, "b", 0)
    assert effects[-1].body == "b"


def test_timeouts_and_backoff() -> None:
    """After a timeout the request may be sent again at once, after a failure when the backoff has passed."""
    requests, effects = a_few()
    requests.send(1, "a", 0)
    assert requests.deadline_ms(0) == 100
    requests.expire(99)
    assert not requests.is_free(1, str, 99)
    requests.expire(100)
    assert requests.is_free(1, str, 100)
    assert requests.take(effects[0].correlation_id) is None, "too late"
    requests.send(1, "a", 100, timeout_ms=5)
    requests.fail(effects[1].correlation_id, 103)
    assert not requests.is_free(1, str, 122)
    assert requests.deadline_ms(103) == 123
    assert requests.is_free(1, str, 123)
    assert requests.deadline_ms(123) is None
    requests.fail(99, 103)


def test_forget_abandons_all_requests() -> None:
    """No response is accepted, and no request has to wait."""
    requests, effects = a_few()
    requests.send(1, "a", 0)
    requests.forget()
    assert requests.take(effects[0].correlation_id) is None
    assert requests.is_free(1, str, 0)
