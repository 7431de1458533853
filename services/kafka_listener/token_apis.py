"""Delegation tokens of Kafka clients. Pure. Source: Kafka KafkaApis.scala."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.messages import registry
from ...protocol.messages import security as s
from ...protocol.security.principals import Principal, parse_principal
from .calls import Call, KafkaApi
from .entities import ms_of

if TYPE_CHECKING:
    from ...protocol.security.tokens import DelegationToken

_NO_TIME = -1


def _create(call: Call) -> None:
    body = call.body
    owner = getattr(body, "owner_principal_name", None)
    request = s.CreateDelegationTokenRequest(
        renewers=tuple(_text(each) for each in body.renewers),
        owner=str(Principal(body.owner_principal_type or "", owner)) if owner else "",
        max_lifetime_ms=ms_of(body.max_lifetime),
    )

    def done(response: s.CreateDelegationTokenResponse) -> None:
        token = response.token
        if token is None:
            call.answer(_create_failed(call, response.error_code, response.error_detail))
        else:
            call.answer({"error_code": 0, **_token(token, response.hmac)})

    call.ask(registry.CREATE_DELEGATION_TOKEN, request, done)


def _text(principal: Any) -> str:
    return str(Principal(principal.principal_type, principal.principal_name))


def _token(token: DelegationToken, hmac: bytes) -> dict[str, Any]:
    owner, requester = parse_principal(token.owner), parse_principal(token.requester)
    return {
        "principal_type": owner.kind,
        "principal_name": owner.name,
        "token_requester_principal_type": requester.kind,
        "token_requester_principal_name": requester.name,
        "issue_timestamp": token.issue_ms,
        "expiry_timestamp": token.expiry_ms,
        "max_timestamp": token.max_ms,
        "token_id": token.token_id,
        "hmac": hmac,
    }


def _create_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    """The owner is the one of the request, or the requester; times are -1."""
    kind, name = call.peer.identity.principal
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


def _renew(call: Call) -> None:
    request = s.RenewDelegationTokenRequest(call.body.hmac, ms_of(call.body.renew_period))
    call.ask(registry.RENEW_DELEGATION_TOKEN, request, lambda response: _answer_changed(call, response))


def _expire(call: Call) -> None:
    request = s.ExpireDelegationTokenRequest(call.body.hmac, ms_of(call.body.expiry_time_period))
    call.ask(registry.EXPIRE_DELEGATION_TOKEN, request, lambda response: _answer_changed(call, response))


def _answer_changed(
    call: Call, response: s.RenewDelegationTokenResponse | s.ExpireDelegationTokenResponse
) -> None:
    call.answer({"error_code": response.error_code, "expiry_timestamp": response.expiry_ms})


def _change_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "expiry_timestamp": _NO_TIME}


def _describe(call: Call) -> None:
    owners = call.body.owners
    asked = None if owners is None else tuple(_text(each) for each in owners)

    def done(response: s.DescribeDelegationTokenResponse) -> None:
        tokens = [
            {**_token(each.token, each.hmac), "renewers": [_principal(text) for text in each.token.renewers]}
            for each in response.tokens
        ]
        call.answer({"error_code": response.error_code, "tokens": tokens})

    call.ask(registry.DESCRIBE_DELEGATION_TOKEN, s.DescribeDelegationTokenRequest(asked), done)


def _principal(text: str) -> dict[str, Any]:
    kind, name = parse_principal(text)
    return {"principal_type": kind, "principal_name": name}


def _describe_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "tokens": ()}


TOKEN_APIS = (
    KafkaApi(38, "CreateDelegationToken", 1, 3, _create, _create_failed),
    KafkaApi(39, "RenewDelegationToken", 1, 2, _renew, _change_failed),
    KafkaApi(40, "ExpireDelegationToken", 1, 2, _expire, _change_failed),
    KafkaApi(41, "DescribeDelegationToken", 1, 3, _describe, _describe_failed),
)
