"""Requests made by hand about ACLs, delegation tokens, SCRAM credentials and SASL; neither system has any."""

from typing import Any

from ..asking import NOT_SERVED, Asking
from ..scene import Scene, scenario
from ..wire import KEYS, Closed, Wire, frame

CLIENT = "raw"
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "t",
    "pattern_type_filter": 3,
    "principal_filter": "User:a",
    "host_filter": "*",
    "operation": 3,
    "permission_type": 3,
}
TOKENS = (
    ("create_delegation_token", (1, 2, 3), {"renewers": [], "max_lifetime": 1_000}),
    ("renew_delegation_token", (1, 2), {"hmac": b"x", "renew_period": 1_000}),
    ("expire_delegation_token", (1, 2), {"hmac": b"x", "expiry_time_period": 1_000}),
)


@scenario(CLIENT, "ACLs without an authorizer")
def acls(scene: Scene) -> None:
    """Described, created and deleted: one error for all, or one for each."""
    with Asking(scene) as asking:
        for version in (1, 2, 3):
            asking.ask(f"described v{version}", "describe_acls", version, **FILTER)
            for label, count in (("none", 0), ("one", 1), ("two", 2)):
                asking.ask(f"{label} created v{version}", "create_acls", version, creations=[ACL] * count)
                asking.ask(f"{label} deleted v{version}", "delete_acls", version, filters=[FILTER] * count)


@scenario(CLIENT, "delegation tokens without authentication")
def tokens(scene: Scene) -> None:
    """The answers with times are noted as bytes: kio cannot read the time -1."""
    with Asking(scene) as asking:
        for api, versions, fields in TOKENS:
            for version in versions:
                scene.note(f"{api} v{version}", _bytes_of(asking, api, version, fields))
        owner = {"owner_principal_type": "User", "owner_principal_name": "x"}
        fields = {**TOKENS[0][2], **owner}
        scene.note("for another owner", _bytes_of(asking, "create_delegation_token", 3, fields))
        for version in (1, 2, 3):
            asking.ask(f"described v{version}", "describe_delegation_token", version, owners=None)


def _bytes_of(asking: Asking, api: str, version: int, fields: dict[str, Any]) -> str:
    """The answer in hexadecimal, without its correlation id."""
    if version not in asking.ranges.get(KEYS[api], ()):
        return NOT_SERVED
    with Wire(asking.scene.system.address(asking.node)) as wire:
        wire.send(frame(api, version, fields))
        try:
            return wire.answer()[4:].hex()
        except Closed:
            return "closed"


@scenario(CLIENT, "SCRAM credentials deleted and SASL on a PLAINTEXT listener")
def credentials(scene: Scene) -> None:
    """Nothing is stored before or after, except what an upsertion stores under a name of its own."""
    with Asking(scene) as asking:
        for label, users in (
            ("unknown", [("no-such-user", 1)]),
            ("without a name", [("", 1)]),
            ("unknown mechanism", [("no-such-user", 9)]),
            ("twice", [("no-such-user", 1), ("no-such-user", 2)]),
            ("none", []),
        ):
            gone = [{"name": name, "mechanism": mechanism} for name, mechanism in users]
            asking.ask(label, "alter_user_scram_credentials", 0, deletions=gone, upsertions=[])
        kept = {"iterations": 4_096, "salt": b"salt", "salted_password": b"password"}
        for label, name, mechanism in (
            ("stored", scene.topic, 1),
            ("stored without a name", "", 1),
            ("stored with an unknown mechanism", scene.topic, 9),
        ):
            upsertions = [{"name": name, "mechanism": mechanism, **kept}]
            asking.ask(label, "alter_user_scram_credentials", 0, deletions=[], upsertions=upsertions)
        gone = [{"name": scene.topic, "mechanism": 1}]
        asking.ask("", "alter_user_scram_credentials", 0, deletions=gone, upsertions=[])
        for version in (0, 1):
            asking.ask(f"handshake v{version}", "sasl_handshake", version, mechanism="PLAIN")
        for version in (0, 1, 2):
            asking.ask(f"authenticate v{version}", "sasl_authenticate", version, auth_bytes=b"\0a\0b")
