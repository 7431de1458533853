"""Feature levels: supported ranges, direction of a change, all or none."""

import pytest
from controller_kit import Driver
from headrace.protocol.errors import InvalidRequestError, InvalidUpdateVersionError
from headrace.protocol.messages.quotas import FeatureUpdate, UpdateFeaturesRequest
from headrace.protocol.metadata.features import SUPPORTED, level_of
from headrace.protocol.metadata.replay import image_of, image_records

UP, DOWN, UNSAFE = 1, 2, 3


def update(driver: Driver, *updates: FeatureUpdate, validate_only: bool = False) -> int:
    code: int = driver.ask(UpdateFeaturesRequest(updates, validate_only)).error_code
    return code


def test_the_default_is_the_highest_level(driver: Driver) -> None:
    """A downgrade and an upgrade; a snapshot keeps the level."""
    assert level_of(driver.image, "transaction.version") == SUPPORTED["transaction.version"][1] == 2
    assert update(driver, FeatureUpdate("transaction.version", 1, DOWN), validate_only=True) == 0
    assert level_of(driver.image, "transaction.version") == 2
    updates = FeatureUpdate("transaction.version", 1, DOWN), FeatureUpdate("group.version", 0, UNSAFE)
    assert update(driver, *updates) == 0
    assert [level_of(driver.image, each.feature) for each in updates] == [1, 0]
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image
    assert update(driver, FeatureUpdate("transaction.version", 2, UP)) == 0
    assert level_of(driver.image, "transaction.version") == 2
    before = driver.image
    assert update(driver, FeatureUpdate("transaction.version", 2, UP)) == 0
    assert driver.image is before


@pytest.mark.parametrize(
    "wrong",
    [
        FeatureUpdate("transaction.version", 1, UP),
        FeatureUpdate("transaction.version", 3, UP),
        FeatureUpdate("transaction.version", -1, DOWN),
        FeatureUpdate("transaction.version", 2, 0),
        FeatureUpdate("metadata.version", 26, DOWN),
        FeatureUpdate("kraft.version", 0, UNSAFE),
        FeatureUpdate("no.such.feature", 1, UP),
        FeatureUpdate("no.such.feature", 0, UNSAFE),
    ],
)
def test_one_invalid_update_refuses_all(driver: Driver, wrong: FeatureUpdate) -> None:
    before = driver.image
    assert update(driver, FeatureUpdate("group.version", 0, DOWN), wrong) == InvalidUpdateVersionError.code
    assert driver.image is before


def test_a_downgrade_is_not_an_upgrade(driver: Driver) -> None:
    """A downgrade to a higher level is refused, and a feature that is named twice."""
    assert update(driver, FeatureUpdate("group.version", 0, DOWN)) == 0
    assert update(driver, FeatureUpdate("group.version", 1, DOWN)) == InvalidUpdateVersionError.code
    twice = FeatureUpdate("group.version", 1, UP)
    assert update(driver, twice, twice) == InvalidRequestError.code
