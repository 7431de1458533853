"""ACLs, delegation tokens, SCRAM credentials and SASL. Pure.

The responses are those of a broker without an authorizer on a PLAINTEXT listener: each request is refused
with Kafka's error code. Source: Kafka AclApis.scala, KafkaApis.scala (delegation tokens, SASL),
ScramControlManager.java.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    DelegationTokenRequestNotAllowedError,
    DuplicateResourceError,
    IllegalSaslStateError,
    ResourceNotFoundError,
    SecurityDisabledError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from .calls import Call, KafkaApi

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError

_SCRAM_MECHANISMS = (1, 2)  # SCRAM-SHA-256, SCRAM-SHA-512
_NO_TIME = -1


def _refused_with(error: KafkaError) -> Callable[[Call], None]:
    """A handler that answers every request with this error."""
    return lambda call: call.refuse(error)


# --- ACLs ----------------------------------------------------------------------------------------------

_no_authorizer = _refused_with(SecurityDisabledError("no authorizer is configured on the node"))


def _acls_not_described(_call: Call, code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "resources": ()}


def _acls_not_created(call: Call, code: int, text: str) -> dict[str, Any]:
    return {"results": [{"error_code": code, "error_message": text or None} for _ in call.body.creations]}


def _acls_not_deleted(call: Call, code: int, text: str) -> dict[str, Any]:
    error = {"error_code": code, "error_message": text or None, "matching_acls": ()}
    return {"filter_results": [error for _ in call.body.filters]}


# --- delegation tokens ---------------------------------------------------------------------------------

_not_authenticated = _refused_with(
    DelegationTokenRequestNotAllowedError("delegation tokens need an authenticated connection")
)


def _token_not_created(call: Call, code: int, _text: str) -> dict[str, Any]:
    """The owner is the one of the request, or the requester; times are -1."""
    kind, name = call.peer.principal
    return {
        "error_code": code,
        "principal_type": getattr(call.body, "owner_principal_type", None) or kind,
        "principal_name": getattr(call.body, "owner_principal_name", None) or name,
        "token_requester_principal_type": kind,
        "token_requester_principal_name": name,
        "issue_timestamp": _NO_TIME,
        "expiry_timestamp": _NO_TIME,
        "max_timestamp": _NO_TIME,
        "token_id": "",
        "hmac": b"",
    }


def _token_not_changed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "expiry_timestamp": _NO_TIME}


def _tokens_not_described(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "tokens": ()}


# --- SCRAM credentials ---------------------------------------------------------------------------------


def _describe_scram(call: Call) -> None:
    """There are no credentials. Kafka's tools ask for them together with a user's quotas."""
    counts = Counter(user.name for user in call.body.users or ())
    results = []
    for name, count in counts.items():
        error = (
            DuplicateResourceError("named twice") if count > 1 else ResourceNotFoundError("no credentials")
        )
        results.append({**_user_error(name, error), "credential_infos": ()})
    call.answer({"error_code": 0, "error_message": None, "results": results})


def _scram_not_described(_call: Call, code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "results": ()}


def _alter_scram(call: Call) -> None:
    """Deletions find no credential; upsertions are refused."""
    errors = {each.name: _not_deleted(each) for each in call.body.deletions}
    errors |= {each.name: _not_stored(each) for each in call.body.upsertions}
    call.answer({"results": [_user_error(name, error) for name, error in errors.items()]})


def _not_deleted(deletion: Any) -> KafkaError:
    return _wrong_user(deletion) or ResourceNotFoundError("the user has no such credential")


def _not_stored(upsertion: Any) -> KafkaError:
    return _wrong_user(upsertion) or UnsupportedSaslMechanismError(
        "SASL/SCRAM is not supported: the cluster stores no credentials"
    )


def _wrong_user(change: Any) -> KafkaError | None:
    if not change.name:
        return UnacceptableCredentialError("the user name is empty")
    if change.mechanism not in _SCRAM_MECHANISMS:
        return UnsupportedSaslMechanismError(f"there is no SCRAM mechanism {change.mechanism}")
    return None


def _scram_not_altered(call: Call, code: int, text: str) -> dict[str, Any]:
    changes = (*call.body.deletions, *call.body.upsertions)
    error = {"error_code": code, "error_message": text or None}
    return {"results": [{"user": name, **error} for name in dict.fromkeys(each.name for each in changes)]}


def _user_error(name: str, error: KafkaError) -> dict[str, Any]:
    return {"user": name, "error_code": error.code, "error_message": error.detail}


# --- SASL ----------------------------------------------------------------------------------------------

_not_sasl = _refused_with(IllegalSaslStateError("the listener's security protocol is PLAINTEXT"))


def _no_handshake(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "mechanisms": ()}


def _not_authenticated_by_sasl(_call: Call, code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "auth_bytes": b""}


SECURITY_APIS = (
    KafkaApi(17, "SaslHandshake", 0, 1, _not_sasl, _no_handshake),
    KafkaApi(29, "DescribeAcls", 1, 3, _no_authorizer, _acls_not_described),
    KafkaApi(30, "CreateAcls", 1, 3, _no_authorizer, _acls_not_created),
    KafkaApi(31, "DeleteAcls", 1, 3, _no_authorizer, _acls_not_deleted),
    KafkaApi(36, "SaslAuthenticate", 0, 2, _not_sasl, _not_authenticated_by_sasl),
    KafkaApi(38, "CreateDelegationToken", 1, 3, _not_authenticated, _token_not_created),
    KafkaApi(39, "RenewDelegationToken", 1, 2, _not_authenticated, _token_not_changed),
    KafkaApi(40, "ExpireDelegationToken", 1, 2, _not_authenticated, _token_not_changed),
    KafkaApi(41, "DescribeDelegationToken", 1, 3, _not_authenticated, _tokens_not_described),
    KafkaApi(50, "DescribeUserScramCredentials", 0, 0, _describe_scram, _scram_not_described),
    KafkaApi(51, "AlterUserScramCredentials", 0, 0, _alter_scram, _scram_not_altered),
)
