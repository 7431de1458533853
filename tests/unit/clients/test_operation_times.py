"""Durations of operations by what was done, and their observers."""

from headrace.clients.operation_times import Operation, OperationTimes
from headrace.protocol.errors import ApiTimeoutError


def test_durations_are_apart_by_operation_topic_and_error() -> None:
    times, seen = OperationTimes(), list[tuple[Operation, float]]()
    times.sent("t", 1.0, None)
    times.observe(lambda operation, took_ms: seen.append((operation, took_ms)))
    times.sent("t", 2.0, None)
    times.sent("u", 3.0, ApiTimeoutError("late"))
    times.polled(4.0)
    times.committed(5.0, None)
    found = {operation: (held.count, held.total) for operation, held in times.items()}
    assert found == {
        Operation("send", "t"): (2, 3.0),
        Operation("send", "u", "ApiTimeoutError"): (1, 3.0),
        Operation("poll"): (1, 4.0),
        Operation("commit"): (1, 5.0),
    }
    assert [took_ms for _, took_ms in seen] == [2.0, 3.0, 4.0, 5.0]
