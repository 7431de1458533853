"""Delegation tokens: lifetimes, renewers, expiry by the wall clock, and Kafka's errors."""

from __future__ import annotations

import random

import pytest
from controller_kit import Driver
from headrace.controller.config import ControllerConfig
from headrace.controller.state import delegation_tokens
from headrace.protocol.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidPrincipalTypeError,
    InvalidRequestError,
)
from headrace.protocol.messages.security import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.security.tokens import token_hmac

DAY, HOUR = 86_400_000, 3_600_000
WALL_MS = 1_700_000_000_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


@pytest.fixture
def tokens() -> Driver:
    driver = Driver(**{"delegation.token.secret.key": "s3cret"})
    driver.core.learn_wall_clock(driver.now_ms, WALL_MS)
    return driver


def create(
    driver: Driver, *renewers: str, owner: str = "", lifetime_ms: int = -1
) -> CreateDelegationTokenResponse:
    answer: CreateDelegationTokenResponse = driver.ask(
        CreateDelegationTokenRequest(renewers, owner, lifetime_ms, ALICE)
    )
    return answer


def renew(driver: Driver, hmac: bytes, caller: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
    answer = driver.ask(RenewDelegationTokenRequest(hmac, period_ms, caller))
    return answer.error_code, answer.expiry_ms


def expire(driver: Driver, hmac: bytes, caller: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
    answer = driver.ask(ExpireDelegationTokenRequest(hmac, period_ms, caller))
    return answer.error_code, answer.expiry_ms


def pass_time(driver: Driver, ms: int) -> None:
    """The clocks advance at once."""
    driver.now_ms += ms
    while records := driver.core.decide_expiry(driver.now_ms):
        driver.take(records)


def test_a_token_is_created_renewed_and_removed(tokens: Driver) -> None:
    made = create(tokens, BOB)
    assert made.token is not None
    assert made.token[1:] == (ALICE, ALICE, (BOB,), WALL_MS, WALL_MS + 7 * DAY, WALL_MS + DAY)
    assert made.hmac == token_hmac("s3cret", made.token.token_id)
    assert image_of(image_records(tokens.image), tokens.image.offset) == tokens.image
    pass_time(tokens, HOUR)
    assert renew(tokens, made.hmac, BOB) == (0, WALL_MS + HOUR + DAY)
    assert renew(tokens, made.hmac, BOB, period_ms=5) == (0, WALL_MS + HOUR + 5)
    assert expire(tokens, made.hmac, BOB, period_ms=DAY) == (0, WALL_MS + HOUR + DAY)
    for _ in range(7):
        pass_time(tokens, DAY - 1)
        code, expiry_ms = renew(tokens, made.hmac)
    assert (code, expiry_ms) == (DelegationTokenNotFoundError.code, -1)  # beyond the longest lifetime
    assert not tokens.image.delegation_tokens


def test_owner_requester_and_renewers_may_renew(tokens: Driver) -> None:
    made = create(tokens, BOB, owner=CAROL, lifetime_ms=DAY // 2)
    assert made.token is not None
    assert (made.token.owner, made.token.requester) == (CAROL, ALICE)
    assert made.token.expiry_ms == made.token.max_ms == WALL_MS + DAY // 2
    for caller in (ALICE, BOB, CAROL):
        assert renew(tokens, made.hmac, caller) == (0, WALL_MS + DAY // 2)
    assert renew(tokens, made.hmac, "User:eve") == (DelegationTokenOwnerMismatchError.code, -1)
    assert expire(tokens, made.hmac, "User:eve") == (DelegationTokenOwnerMismatchError.code, -1)
    assert renew(tokens, b"wrong") == (DelegationTokenNotFoundError.code, -1)
    assert expire(tokens, made.hmac) == (0, WALL_MS)
    assert expire(tokens, made.hmac) == (DelegationTokenNotFoundError.code, -1)


def test_an_expired_token_is_removed_by_the_next_check(tokens: Driver) -> None:
    kept, short = create(tokens), create(tokens, lifetime_ms=1_000)
    tokens.now_ms += 1_001
    assert renew(tokens, short.hmac) == (DelegationTokenExpiredError.code, -1)
    assert expire(tokens, short.hmac, period_ms=5) == (DelegationTokenExpiredError.code, -1)
    assert len(tokens.image.delegation_tokens) == 2
    pass_time(tokens, HOUR)
    assert kept.token is not None
    assert list(tokens.image.delegation_tokens) == [kept.token.token_id]


def test_tokens_are_described_by_owner_also_after_a_restart(tokens: Driver) -> None:
    made = create(tokens, BOB)
    create(tokens, owner=CAROL)
    tokens.restart()
    assert len(tokens.ask(DescribeDelegationTokenRequest()).tokens) == 2
    (found,) = tokens.ask(DescribeDelegationTokenRequest((BOB,))).tokens
    assert (found.token, found.hmac) == (made.token, made.hmac)
    assert tokens.ask(DescribeDelegationTokenRequest(())).tokens == ()
    assert repr(made.hmac) not in repr((found, made, RenewDelegationTokenRequest(made.hmac)))
    assert repr(made.hmac) not in repr((ExpireDelegationTokenRequest(made.hmac), tokens.image))
    assert "s3cret" not in repr(tokens.config)


def test_requests_that_are_refused(tokens: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(tokens, "Group:g").error_code == InvalidPrincipalTypeError.code
    assert create(tokens, "bob").error_code == InvalidRequestError.code
    assert create(tokens, owner="Role:readers").error_code == InvalidPrincipalTypeError.code
    assert create(tokens, "User:" + "x" * 500).error_code == InvalidRequestError.code
    assert create(tokens, *(f"User:{number}" for number in range(101))).error_code == InvalidRequestError.code
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 0)
    assert create(tokens).error_code == InvalidRequestError.code


def test_an_id_does_not_begin_with_a_hyphen() -> None:
    """Tools would take it for an option."""

    class Scripted(random.Random):
        def randbytes(self, n: int) -> bytes:
            return drawn.pop(0)

    drawn = [b"\xfb" * 16, b"\0" * 16]
    config = ControllerConfig.of({"metadata.log.dir": "/m", "delegation.token.secret.key": "k"})
    tokens = delegation_tokens.DelegationTokens(config, Scripted())
    made = tokens.decide_create(MetadataImage(), CreateDelegationTokenRequest(requester=ALICE), WALL_MS)
    assert made.reply.token.token_id == "A" * 22


def test_token_requests_fail_without_secret_key(driver: Driver) -> None:
    code = DelegationTokenAuthDisabledError.code
    assert create(driver).error_code == code
    assert renew(driver, b"x") == (code, -1)
    assert expire(driver, b"x") == (code, -1)
    assert driver.ask(DescribeDelegationTokenRequest()).error_code == code
