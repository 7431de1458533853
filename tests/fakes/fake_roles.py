"""Roles, namespaces and feature levels of the fake cluster: decided by the controller's own code."""

from typing import Any

from headrace.controller.state.decision import Decision
from headrace.controller.state.features import decide_features
from headrace.controller.state.namespaces import decide_alter_namespaces, describe_namespaces
from headrace.controller.state.roles import decide_alter_roles, describe_roles
from headrace.protocol.metadata.features import SECURITY_VERSION
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import replay


class FakeRoles:
    """`roles_image` has the metadata that these requests change."""

    def __init__(self) -> None:
        self.roles_image = MetadataImage(features={SECURITY_VERSION: 2})

    def _do_AlterRoles(self, body: Any) -> Any:
        return self._applied(decide_alter_roles(self.roles_image, body))

    def _do_DescribeRoles(self, body: Any) -> Any:
        return describe_roles(self.roles_image, body).reply

    def _do_AlterNamespaces(self, body: Any) -> Any:
        return self._applied(decide_alter_namespaces(self.roles_image, body))

    def _do_DescribeNamespaces(self, body: Any) -> Any:
        return describe_namespaces(self.roles_image, body).reply

    def _do_UpdateFeatures(self, body: Any) -> Any:
        return self._applied(decide_features(self.roles_image, body, {}))

    def _applied(self, decision: Decision) -> Any:
        if decision.records:
            offset = self.roles_image.offset + 1
            self.roles_image, _ = replay(self.roles_image, offset, decision.records)
        return decision.reply
