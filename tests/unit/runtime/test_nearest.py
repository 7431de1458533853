"""What a misspelled name may have meant."""

import pytest
from headrace.runtime.nearest import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("ordres", ["orders", "payments"], "; did you mean 'orders'?"),
        ("ORDERS", ["Orders"], "; did you mean 'Orders'?"),
        ("xyz", ["orders"], ""),
        ("orders", [], ""),
    ],
)
def test_nearest_name_is_suggested(name: str, known: list[str], hint: str) -> None:
    """Ignoring case; nothing when none is near."""
    assert did_you_mean(name, known) == hint
