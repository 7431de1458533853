"""`headrace.Security`: users of a cluster of `headrace.local()`, and how its clients authenticate. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..protocol.messages.security import AlterUserScramCredentialsRequest, ScramUpsertion
from ..protocol.security.sasl import GSSAPI
from ..protocol.security.scram import MINIMUM_ITERATIONS, SCRAM_MECHANISMS, salted_password
from ..runtime.server_security_config import SASL_SSL, SSL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class Security:
    """Security of a local cluster: its native listeners are encrypted, and its servers authenticate each
    other by keys.

    `users`: passwords by name; without users connections are encrypted only. A user `admin` with a random
    password is added unless `users` has it: clients of the cluster object without a user name authenticate as
    `admin`. Passwords are not printed.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def protocol(self) -> str:
        """security.protocol of clients."""
        return SASL_SSL if self.users else SSL

    def with_admin(self, password: str) -> Security:
        """With the user `admin`, if there are users."""
        return Security(users={ADMIN: password, **self.users}) if self.users else self

    def client_config(self, trusted_file: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a client with these keys, which have precedence."""
        names = {name.replace("_", "."): value for name, value in given.items()}
        if "security.protocol" in names:
            return {}
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if not names.keys() & {"server.public.key", "trusted.server.keys.file"}:
            found["trusted.server.keys.file"] = trusted_file
        is_named = (
            bool(names.keys() & {"username", "sasl.username"})
            or any("oauthbearer" in name for name in names)
            or names.get("sasl.mechanism") == GSSAPI
        )
        if self.users and not is_named:
            found["sasl.username"], found["sasl.password"] = ADMIN, self.users[ADMIN]
        return found

    def credentials(self, new_salt: Callable[[], bytes]) -> list[AlterUserScramCredentialsRequest]:
        """Requests that create the users; one for each mechanism."""
        return [
            AlterUserScramCredentialsRequest(
                upsertions=tuple(
                    ScramUpsertion(
                        name,
                        mechanism,
                        MINIMUM_ITERATIONS,
                        salt := new_salt(),
                        salted_password(mechanism, password, salt, MINIMUM_ITERATIONS),
                    )
                    for name, password in self.users.items()
                )
            )
            for mechanism in SCRAM_MECHANISMS.values()
        ]
