"""The keys of workers."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.stream.ray.config import WorkersConfig


def test_first_number_of_workers() -> None:
    """Within the bounds, if there are any."""
    assert WorkersConfig(workers=3).first_target == 3
    assert WorkersConfig(autoscale_min=2, autoscale_max=8).first_target == 2
    assert WorkersConfig(workers=9, autoscale_min=2, autoscale_max=8).first_target == 8
    assert not WorkersConfig().scales


@pytest.mark.parametrize("bounds", [(0, 5), (5, 0), (3, 2)])
def test_bounds_that_are_none(bounds: tuple[int, int]) -> None:
    """One of them alone, or in the wrong order."""
    with pytest.raises(ConfigError, match=r"autoscale\.min .* are no bounds"):
        WorkersConfig(autoscale_min=bounds[0], autoscale_max=bounds[1])
