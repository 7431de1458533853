"""The switch between versions of the semantic conventions."""

import pytest
from headrace.runtime.tracing.names import Names, span_name


@pytest.mark.parametrize(
    ("opt_in", "expected"),
    [
        ("", {"messaging.kafka.offset": 5}),
        ("http,messaging", {"kafka.offset": 5}),
        ("messaging/dup", {"messaging.kafka.offset": 5, "kafka.offset": 5}),
    ],
)
def test_opt_in_chooses_the_names(opt_in: str, expected: dict[str, int]) -> None:
    """The values of OTEL_SEMCONV_STABILITY_OPT_IN."""
    names = Names(opt_in)
    assert names.attributes({"offset": 5, "group": "", "key": None}) == expected
    same = names.of_operation("process", "orders", partition="0")
    assert same["messaging.operation.type"] == "process"
    assert span_name("send", "orders") == "send orders"


def test_unknown_fact_is_an_error() -> None:
    """No attribute has a name that is not in the module."""
    with pytest.raises(KeyError):
        Names().attributes({"ofset": 1})
