"""Responses that may name more than their requests."""

from authorization_kit import IMAGE
from headrace.protocol.messages.registry import DESCRIBE_DELEGATION_TOKEN
from headrace.protocol.messages.security import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribedToken,
)
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.protocol.security.authorizer import RuleAuthorizer
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.rule_index import RuleIndex
from headrace.protocol.security.tokens import DelegationToken
from headrace.runtime.authorization.access import Access
from headrace.runtime.authorization.checks import CHECKS
from headrace.runtime.authorization.outcomes import Reduced

ALICE = Identity(user("alice"), "127.0.0.1", "PLAIN")


def test_tokens_of_others_need_a_rule() -> None:
    def token(token_id: str, owner: str, *renewers: str) -> DescribedToken:
        return DescribedToken(DelegationToken(token_id, owner, owner, renewers, 1, 2, 3), b"h")

    def rule(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        return AclBinding(kind, name, PatternType.LITERAL, "User:alice", "*", operation, AclPermission.ALLOW)

    tokens = (
        token("own", "User:alice"),
        token("renewed", "User:bob", "User:alice"),
        token("by id", "User:bob"),
        token("by owner", "User:carol"),
        token("hidden", "User:bob"),
    )
    response = DescribeDelegationTokenResponse(tokens=tokens)
    rules = [
        rule(ResourceType.DELEGATION_TOKEN, "by id", AclOperation.DESCRIBE),
        rule(ResourceType.USER, "User:carol", AclOperation.DESCRIBE_TOKENS),
    ]
    access = Access(RuleAuthorizer(RuleIndex(rules)), ALICE, IMAGE)
    left = CHECKS[DESCRIBE_DELEGATION_TOKEN.key](access, DescribeDelegationTokenRequest(), ())
    assert isinstance(left, Reduced)
    seen = left.merge(response)
    assert [each.token.token_id for each in seen.tokens] == ["own", "renewed", "by id", "by owner"]
