"""Arguments and results of the admin client about rules, users and delegation tokens. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.security.scram import MAXIMUM_ITERATIONS, MINIMUM_ITERATIONS, ScramMechanism

if TYPE_CHECKING:
    from ...protocol.security.tokens import DelegationToken


@dataclass(frozen=True, slots=True)
class ScramPassword:
    """A password to set. Only a salted form of it leaves the client."""

    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = MINIMUM_ITERATIONS
    salt: bytes = field(default=b"", repr=False)  # empty: random bytes

    def __post_init__(self) -> None:
        if not self.password:
            raise ConfigError("a password must not be empty")
        if not MINIMUM_ITERATIONS <= self.iterations <= MAXIMUM_ITERATIONS:
            raise ConfigError(
                f"iterations must be {MINIMUM_ITERATIONS} to {MAXIMUM_ITERATIONS}, not {self.iterations}"
            )


class ScramCredentialInfo(NamedTuple):
    """A credential of a user."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A delegation token with the HMAC that authenticates with it: its base64 text is the password of the
    user name `token.token_id`."""

    token: DelegationToken
    hmac: bytes = field(repr=False)
