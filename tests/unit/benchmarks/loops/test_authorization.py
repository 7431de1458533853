"""The loop over the authorizer: all questions are allowed, and it reports what the cell needs."""

from headrace.benchmarks.loops.authorization import authorize


class StoppedClock:
    """A clock that measures nothing."""

    def ready(self) -> None:
        """No harness waits."""

    start = ready

    def stop(self) -> dict[str, float]:
        return {"seconds": 0.0}


def test_each_rule_is_loaded_and_looked_up() -> None:
    """Rules are those of a node that has the metadata; a question that is not allowed would be an error."""
    found = authorize({"count": 40, "rounds": 2}, StoppedClock())  # type: ignore[arg-type]
    assert found.keys() == {"seconds", "load_s", "look_up_us", "extra_us"}
    assert found["extra_us"].keys() == {"Produce", "Fetch"}
