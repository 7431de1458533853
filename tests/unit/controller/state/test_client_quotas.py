"""Client quotas: allowed entities and keys, descriptions, the log and snapshots."""

import math
from typing import Any

import pytest
from controller_kit import Driver
from headrace.protocol.errors import InvalidRequestError, UnsupportedVersionError
from headrace.protocol.messages.quotas import (
    DEFAULT,
    EXACT,
    SPECIFIED,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaChange,
    QuotaFilter,
)
from headrace.protocol.metadata.quotas import sorted_entity
from headrace.protocol.metadata.replay import image_of, image_records

USER, DEFAULT_USER, CLIENT = (("user", "u"),), (("user", None),), (("client-id", "c"),)
BOTH = (("user", "u"), ("client-id", "c"))
IP = (("ip", "10.0.0.1"),)


def alter(
    driver: Driver, entity: Any, *, validate_only: bool = False, **values: float | None
) -> tuple[int, str]:
    """None removes a quota."""
    changes = tuple(QuotaChange(key, value) for key, value in values.items())
    request = AlterClientQuotasRequest((QuotaAlteration(entity, changes),), validate_only)
    (result,) = driver.ask(request).results
    return result.error_code, result.error_detail


def described(driver: Driver, *components: QuotaFilter, strict: bool = False) -> dict[Any, dict[str, float]]:
    answer = driver.ask(DescribeClientQuotasRequest(components, strict))
    assert answer.error_code == 0, answer.error_detail
    return {entry.entity: entry.values for entry in answer.entries}


def fill(driver: Driver) -> None:
    for entity in (USER, DEFAULT_USER, CLIENT, BOTH):
        assert alter(driver, entity, producer_byte_rate=1000, request_percentage=0.5) == (0, "")
    assert alter(driver, IP, connection_creation_rate=7) == (0, "")


def test_quotas_are_set_changed_and_removed(driver: Driver) -> None:
    """Only changes are recorded; an entity without quotas is removed; a snapshot keeps all of them."""
    fill(driver)
    count = len(driver.records)
    assert alter(driver, USER, producer_byte_rate=1000) == (0, "")
    assert alter(driver, USER, consumer_byte_rate=5, validate_only=True) == (0, "")
    assert alter(driver, USER, consumer_byte_rate=None) == (0, "")
    assert len(driver.records) == count
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image
    assert alter(driver, USER, producer_byte_rate=None, request_percentage=2) == (0, "")
    assert described(driver, QuotaFilter("user", EXACT, "u"), strict=True) == {
        USER: {"request_percentage": 2}
    }
    assert alter(driver, USER, request_percentage=None) == (0, "")
    assert USER not in described(driver)
    assert USER not in driver.image.client_quotas


def test_filters_find_by_type_name_and_default(driver: Driver) -> None:
    """With `strict` only entities with exactly these types."""
    fill(driver)
    both = sorted_entity(BOTH)
    assert set(described(driver)) == {USER, DEFAULT_USER, CLIENT, both, IP}
    assert described(driver, strict=True) == {}
    users = QuotaFilter("user", SPECIFIED)
    assert set(described(driver, users)) == {USER, DEFAULT_USER, both}
    assert set(described(driver, users, strict=True)) == {USER, DEFAULT_USER}
    assert set(described(driver, QuotaFilter("user", DEFAULT))) == {DEFAULT_USER}
    client = QuotaFilter("client-id", EXACT, "c")
    assert set(described(driver, client)) == {CLIENT, both}
    assert set(described(driver, users, client, strict=True)) == {both}
    assert set(described(driver, QuotaFilter("ip", SPECIFIED))) == {IP}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([QuotaFilter("", SPECIFIED)], InvalidRequestError),
        ([QuotaFilter("group", SPECIFIED)], UnsupportedVersionError),
        ([QuotaFilter("user", 3)], InvalidRequestError),
        ([QuotaFilter("user", EXACT)], InvalidRequestError),
        ([QuotaFilter("user", DEFAULT, "u")], InvalidRequestError),
        ([QuotaFilter("user", SPECIFIED, "u")], InvalidRequestError),
        ([QuotaFilter("user", SPECIFIED), QuotaFilter("user", DEFAULT)], InvalidRequestError),
        ([QuotaFilter("user", SPECIFIED), QuotaFilter("ip", DEFAULT)], InvalidRequestError),
    ],
)
def test_invalid_filters(driver: Driver, components: list[QuotaFilter], error: Any) -> None:
    """With Kafka's error codes."""
    assert driver.ask(DescribeClientQuotasRequest(tuple(components))).error_code == error.code


@pytest.mark.parametrize(
    ("entity", "values", "text"),
    [
        ((), {"producer_byte_rate": 1}, "at least one"),
        ((("group", "g"),), {"producer_byte_rate": 1}, "a user, a client-id, both, or an ip"),
        ((*IP, *USER), {"producer_byte_rate": 1}, "a user, a client-id, both, or an ip"),
        ((*USER, *USER), {"producer_byte_rate": 1}, "a user, a client-id, both, or an ip"),
        ((("user", ""),), {"producer_byte_rate": 1}, "1 to 500 characters"),
        ((("user", "u" * 501),), {"producer_byte_rate": 1}, "1 to 500 characters"),
        ((("ip", "nowhere.example"),), {"connection_creation_rate": 1}, "no address"),
        (IP, {"producer_byte_rate": 1}, "no quota 'producer_byte_rate'"),
        (USER, {"connection_creation_rate": 1}, "no quota"),
        (USER, {"no_such_quota": None}, "no quota"),
        (USER, {"producer_byte_rate": 0}, "above 0"),
        (USER, {"producer_byte_rate": -1}, "above 0"),
        (USER, {"request_percentage": math.nan}, "above 0"),
        (USER, {"request_percentage": math.inf}, "above 0"),
        (USER, {"producer_byte_rate": 1.5}, "whole number"),
        (IP, {"connection_creation_rate": 2.0**31}, "whole number"),
    ],
)
def test_invalid_quotas(driver: Driver, entity: Any, values: Any, text: str) -> None:
    before = driver.image
    code, detail = (
        alter(driver, entity, consumer_byte_rate=9, **values)
        if entity == USER
        else alter(driver, entity, **values)
    )
    assert (code, text in detail) == (InvalidRequestError.code, True), detail
    assert driver.image is before


def test_one_invalid_entity_fails_alone(driver: Driver) -> None:
    """An entity that is named twice is changed once."""
    good, bad = QuotaChange("producer_byte_rate", 5), QuotaChange("producer_byte_rate", -5)
    twice = AlterClientQuotasRequest(
        (
            QuotaAlteration(USER, (good,)),
            QuotaAlteration(CLIENT, (bad,)),
            QuotaAlteration(USER, (good,)),
            QuotaAlteration(DEFAULT_USER, (good, good)),
        )
    )
    answer = driver.ask(twice)
    assert [result.error_code for result in answer.results] == [0, 42, 42, 42]
    assert answer.metadata_offset == driver.image.offset
    assert described(driver) == {USER: {"producer_byte_rate": 5}}


def test_entities_are_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Existing ones may still be changed."""
    monkeypatch.setattr("headrace.controller.state.client_quotas.MAX_ENTITIES", 2)
    for name, code in (("a", 0), ("b", 0), ("c", 42), ("b", 0)):
        assert alter(driver, (("user", name),), producer_byte_rate=1 + ord(name))[0] == code
    assert alter(driver, (("user", "b"),), producer_byte_rate=7)[0] == 0
