"""Rules (ACLs) of a secured system, by raw requests."""

from typing import Any

from headrace.protocol.security.acls import AclOperation, AclPermission, PatternType

from .asking import Asking


def rule(user: str, operation: AclOperation, kind: int, name: str) -> dict[str, Any]:
    """An entry of CreateAcls that allows it from everywhere."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL.value,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation.value,
        "permission_type": AclPermission.ALLOW.value,
    }


def add_rules(asking: Asking, rules: list[dict[str, Any]]) -> None:
    """Until the node obeys them: it has them later than its controller."""
    made = asking.ask("", "create_acls", 3, creations=rules)
    assert {each["error_code"] for each in made["results"]} == {"none"}, made
    last = rules[-1]
    wanted = {
        "resource_type_filter": last["resource_type"],
        "resource_name_filter": last["resource_name"],
        "pattern_type_filter": last["resource_pattern_type"],
        "principal_filter": last["principal"],
        "host_filter": last["host"],
        "operation": last["operation"],
        "permission_type": last["permission_type"],
    }
    asking.scene.until(lambda: asking.ask("", "describe_acls", 3, **wanted)["resources"], last["principal"])
