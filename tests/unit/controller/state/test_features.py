"""Feature levels: supported ranges, direction of a change, all or none."""

import random

import pytest
from controller_kit import Driver
from headrace.controller.controller import Controller
from headrace.protocol.errors import (
    InvalidRequestError,
    InvalidUpdateVersionError,
    UnsupportedVersionError,
)
from headrace.protocol.messages.quotas import FeatureUpdate, UpdateFeaturesRequest
from headrace.protocol.messages.roles import (
    CREATE,
    AlterNamespacesRequest,
    AlterRolesRequest,
    NamespaceChange,
    RoleChange,
)
from headrace.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsRequest,
)
from headrace.protocol.metadata.features import OWN_RANGES, SUPPORTED, level_of
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.model import FeatureRange
from headrace.protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

UP, DOWN, UNSAFE = 1, 2, 3
SECURITY = "security.version"
OLD = (FeatureRange(SECURITY, 0, 1),)  # what a node reports that knows no roles
RULE = AclBinding(
    ResourceType.TOPIC,
    "t",
    PatternType.LITERAL,
    "User:u",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


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


def refusal(driver: Driver, *updates: FeatureUpdate) -> str:
    answer = driver.ask(UpdateFeaturesRequest(updates))
    assert answer.error_code == InvalidUpdateVersionError.code
    return str(answer.error_detail)


def test_a_new_cluster_has_the_newest_level_and_an_older_log_the_one_before(driver: Driver) -> None:
    assert driver.image.features == {SECURITY: SUPPORTED[SECURITY][1]}
    assert level_of(MetadataImage(), SECURITY) == 1
    assert level_of(MetadataImage(), "group.version") == 1


@pytest.mark.parametrize(
    ("level", "request_"),
    [
        (0, CreateAclsRequest((RULE,))),
        (0, AlterUserScramCredentialsRequest()),
        (1, AlterRolesRequest((RoleChange("r", CREATE),))),
        (1, AlterNamespacesRequest((NamespaceChange("n"),))),
    ],
)
def test_records_above_the_level_are_refused(driver: Driver, level: int, request_: object) -> None:
    assert update(driver, FeatureUpdate(SECURITY, level, DOWN)) == 0
    before = driver.image
    with pytest.raises(UnsupportedVersionError, match=f"need level {level + 1} of feature security.version"):
        driver.ask(request_)
    assert driver.image is before
    assert update(driver, FeatureUpdate(SECURITY, level + 1, UP)) == 0
    driver.ask(request_)


def test_tokens_need_the_level_too() -> None:
    driver = Driver(delegation_token_secret_key="secret")
    assert update(driver, FeatureUpdate(SECURITY, 0, DOWN)) == 0
    answer = driver.ask(CreateDelegationTokenRequest(requester="User:u"))
    assert answer.error_code == UnsupportedVersionError.code


@pytest.mark.parametrize("way", [DOWN, UNSAFE])
def test_a_level_is_lowered_once_its_records_are_gone(driver: Driver, way: int) -> None:
    driver.ask(AlterRolesRequest((RoleChange("r", CREATE),)))
    driver.ask(AlterNamespacesRequest((NamespaceChange("n"),)))
    assert "1 roles, 1 namespaces" in refusal(driver, FeatureUpdate(SECURITY, 1, way))
    driver.ask(AlterNamespacesRequest((NamespaceChange("n", is_deleted=True),)))
    driver.ask(AlterRolesRequest((RoleChange("r", 2),)))
    assert update(driver, FeatureUpdate(SECURITY, 1, way)) == 0
    driver.ask(CreateAclsRequest((RULE,)))
    assert "1 rules" in refusal(driver, FeatureUpdate(SECURITY, 0, way))
    driver.ask(DeleteAclsRequest((AclFilter(),)))
    assert update(driver, FeatureUpdate(SECURITY, 0, way)) == 0


@pytest.mark.parametrize("reported", [OLD, ()])
def test_a_node_that_does_not_know_the_records_keeps_the_level_down(
    driver: Driver, reported: tuple[FeatureRange, ...]
) -> None:
    """Fenced or not; a node without a report is of a version before the feature."""
    assert update(driver, FeatureUpdate(SECURITY, 1, DOWN)) == 0
    driver.join(1, 2)
    driver.join(3, features=reported)
    wanted = FeatureUpdate(SECURITY, 2, UP)
    assert "node 3 supports levels 0 to 1" in refusal(driver, wanted)
    driver.fence(3)
    assert "node 3 supports levels 0 to 1" in refusal(driver, wanted)
    assert update(driver, FeatureUpdate("group.version", 0, DOWN)) == 0
    driver.restart()
    driver.come_back(3, 33, is_clean=True)
    assert update(driver, wanted) == 0


@pytest.mark.parametrize("reported", [OLD, ()])
def test_a_node_that_does_not_know_the_level_is_not_registered(
    driver: Driver, reported: tuple[FeatureRange, ...]
) -> None:
    answer = driver.register(1, features=reported)
    assert answer.error_code == UnsupportedVersionError.code
    assert answer.error_detail == (
        "node 1 supports levels 0 to 1 of feature security.version, and the cluster has 2: install a version"
        " of headrace that supports it"
    )
    assert not driver.image.brokers
    too_many = (FeatureRange("f", 0, 1),) * 101
    assert driver.register(1, features=OWN_RANGES + too_many).error_code == InvalidRequestError.code


def test_a_process_that_reports_other_levels_is_registered_again(driver: Driver) -> None:
    driver.join(1)
    newer = (*OWN_RANGES, FeatureRange("newer.version", 0, 1))
    assert driver.register(1, features=newer).error_code == 0
    assert driver.image.brokers[1].features == newer
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image


@pytest.mark.parametrize(
    ("reported", "why"),
    [(OLD, "controller 2 supports levels 0 to 1"), (None, "controller 2 has not reported")],
)
def test_a_controller_that_does_not_know_the_records_keeps_the_level_down(
    driver: Driver, reported: tuple[FeatureRange, ...] | None, why: str
) -> None:
    assert update(driver, FeatureUpdate(SECURITY, 1, DOWN)) == 0
    voters = {2: reported, 3: OWN_RANGES}
    driver.core = Controller(driver.config, random.Random(1), driver.image, driver.now_ms, lambda: voters)
    assert why in refusal(driver, FeatureUpdate(SECURITY, 2, UP))
    voters[2] = OWN_RANGES
    assert update(driver, FeatureUpdate(SECURITY, 2, UP)) == 0
