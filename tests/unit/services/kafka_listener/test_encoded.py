"""Encoded responses: the same bytes for the same key, within a bound of memory."""

from headrace.services.kafka_listener.encoded import MAX_ANSWERS, EncodedResponses


def test_a_body_is_encoded_once_per_key() -> None:
    """The least recently used key is dropped first."""
    made: list[int] = []

    def body(key: int) -> bytes:
        made.append(key)
        return bytes([key]) * 20

    answers = EncodedResponses(max_bytes=100)
    for key in (1, 2, 1, 3, 4, 5, 1):
        assert answers.get(key, lambda key=key: body(key)) == bytes([key]) * 20
    assert made == [1, 2, 3, 4, 5]
    answers.get(6, lambda: body(6))
    answers.get(1, lambda: body(1))
    answers.get(2, lambda: body(2))
    assert made == [1, 2, 3, 4, 5, 6, 2]


def test_encoded_responses_are_bounded() -> None:
    """By the size of one and the size of all; small ones count at least the size of their keys."""
    answers = EncodedResponses(max_bytes=100)
    assert answers.get("large", lambda: bytes(26)) == bytes(26)
    assert answers.get("large", lambda: bytes(27)) == bytes(27)
    for key in range(MAX_ANSWERS + 1):
        answers.get(key, lambda: b"")
    assert answers.get(0, lambda: b"encoded") == b"encoded"
    assert answers.get(MAX_ANSWERS, lambda: b"encoded") == b""
