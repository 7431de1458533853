"""Roles, namespaces and feature levels through the admin client, on a fake cluster."""

from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.admin.role_types import FeatureLevel, NamespaceDescription, RoleDescription
from headrace.protocol import errors
from headrace.protocol.messages import data


async def test_roles(fake: Any, cluster: Any) -> None:
    admin = cluster.admin()
    (await admin.create_roles("readers", "writers")).raise_for_errors()
    (await admin.grant_role("readers", "User:a", "User:b")).raise_for_errors()
    refused = await admin.grant_role("readers", "User:c", "Role:writers")
    assert list(refused.errors) == ["Role:writers"]
    found = await admin.describe_roles(member="User:a")
    assert dict(found) == {"readers": RoleDescription("readers", ("User:a", "User:b", "User:c"))}
    unknown = await admin.describe_roles("readers", "x")
    assert isinstance(unknown.errors["x"], errors.ResourceNotFoundError)
    assert list((await admin.revoke_role("readers", "User:a", "User:x")).errors) == ["User:x"]
    assert list((await admin.delete_roles("readers", "writers")).errors) == ["readers"]
    (await admin.delete_roles("readers", with_rules=True)).raise_for_errors()
    assert not fake.roles_image.roles


async def test_namespaces(cluster: Any) -> None:
    admin = cluster.admin()
    await admin.set_namespace("shop.", max_topics=5)
    await admin.set_namespace("shop.", max_partitions=7)
    found = await admin.describe_namespaces()
    assert dict(found) == {"shop.": NamespaceDescription("shop.", 5, 7, "", 0, 0)}
    with pytest.raises(errors.ResourceNotFoundError, match="no role 'x'"):
        await admin.set_namespace("shop.", owner="x")
    assert list((await admin.delete_namespaces("shop.", "x")).errors) == ["x"]
    assert not await admin.describe_namespaces()


async def test_a_retry_after_a_lost_response_succeeds(fake: Any, cluster: Any) -> None:
    """Each change is executed and its response lost: the retry finds the target state."""
    admin = cluster.admin()
    for call in (
        lambda: admin.create_roles("r"),
        lambda: admin.grant_role("r", "User:a"),
        lambda: admin.revoke_role("r", "User:a"),
        lambda: admin.delete_roles("r"),
    ):
        fake.fail_next("AlterRoles", Fault(lost_reply=True))
        (await call()).raise_for_errors()
    assert not fake.roles_image.roles
    await admin.set_namespace("n")
    fake.fail_next("AlterNamespaces", Fault(lost_reply=True))
    (await admin.delete_namespaces("n")).raise_for_errors()


async def test_features(fake: Any, cluster: Any) -> None:
    """A lower level is asked for as a downgrade, if that is allowed."""
    fake.features = (
        data.FeatureLevel("security.version", 2, 0, 2),
        data.FeatureLevel("group.version", 1, 0, 1),
    )
    admin = cluster.admin()
    assert (await admin.describe_features())["security.version"] == FeatureLevel(2, 0, 2)
    with pytest.raises(errors.InvalidUpdateVersionError):
        await admin.update_features({"security.version": 1})
    await admin.update_features({"security.version": 1}, allow_downgrade=True, validate_only=True)
    assert fake.roles_image.features["security.version"] == 2
    await admin.update_features({"security.version": 1, "group.version": 1}, allow_downgrade=True)
    assert fake.roles_image.features["security.version"] == 1
