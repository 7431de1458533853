"""DescribeUserScramCredentials and AlterUserScramCredentials. Pure. Source: Kafka KafkaApis.scala."""

from __future__ import annotations

from typing import Any

from ...protocol.messages import registry
from ...protocol.messages import security as s
from .calls import Call, KafkaApi


def _describe(call: Call) -> None:
    names = tuple(user.name for user in call.body.users or ())

    def done(response: s.DescribeUserScramCredentialsResponse) -> None:
        results = [_described(user) for user in response.users]
        call.answer(_description(response.error_code, response.error_detail, results))

    request = s.DescribeUserScramCredentialsRequest(names or None)
    call.ask(registry.DESCRIBE_USER_SCRAM_CREDENTIALS, request, done)


def _described(user: s.DescribedScramUser) -> dict[str, Any]:
    return {
        **_result(user.name, user.error_code, user.error_detail),
        "credential_infos": [
            {"mechanism": each.mechanism, "iterations": each.iterations} for each in user.credentials
        ],
    }


def _description(code: int, text: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "results": results}


def _describe_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    """Kafka leaves the users' names out."""
    results = [{**_result("", code, text), "credential_infos": ()} for _ in call.body.users or ()]
    return _description(code, text, results)


def _alter(call: Call) -> None:
    request = s.AlterUserScramCredentialsRequest(
        tuple(s.ScramDeletion(each.name, each.mechanism) for each in call.body.deletions),
        tuple(
            s.ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in call.body.upsertions
        ),
    )

    def done(response: s.AlterUserScramCredentialsResponse) -> None:
        results = [_result(each.name, each.error_code, each.error_detail) for each in response.results]
        call.answer({"results": results})

    call.ask(registry.ALTER_USER_SCRAM_CREDENTIALS, request, done)


def _alter_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    changes = (*call.body.deletions, *call.body.upsertions)
    return {"results": [_result(name, code, text) for name in dict.fromkeys(each.name for each in changes)]}


def _result(name: str, code: int, text: str) -> dict[str, Any]:
    return {"user": name, "error_code": code, "error_message": text or None}


SCRAM_APIS = (
    KafkaApi(50, "DescribeUserScramCredentials", 0, 0, _describe, _describe_failed),
    KafkaApi(51, "AlterUserScramCredentials", 0, 0, _alter, _alter_failed),
)
