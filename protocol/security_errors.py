"""Wire errors of authentication, authorization and delegation tokens. Import them from errors.py.

Source: Kafka Errors.java.
"""

from __future__ import annotations

from .client_errors import KafkaError


class DelegationTokenAuthDisabledError(KafkaError):
    """The cluster has no delegation.token.secret.key, so it has no delegation tokens."""

    code = 61


class DelegationTokenNotFoundError(KafkaError):
    """There is no delegation token with this HMAC."""

    code = 62


class DelegationTokenOwnerMismatchError(KafkaError):
    """Only the owner, the requester and the renewers of a delegation token may renew or expire it."""

    code = 63


class DelegationTokenExpiredError(KafkaError):
    """The delegation token has expired."""

    code = 66


class InvalidPrincipalTypeError(KafkaError):
    """A renewer of a delegation token is not a user."""

    code = 67


class TopicAuthorizationFailedError(KafkaError):
    """The user may not do this with the topic, whether or not it exists."""

    code = 29


class GroupAuthorizationFailedError(KafkaError):
    """The user may not do this with the group, whether or not it exists."""

    code = 30


class ClusterAuthorizationFailedError(KafkaError):
    """The user may not do this in this cluster."""

    code = 31


class TransactionalIdAuthorizationFailedError(KafkaError):
    """The user may not do this with the transactional id, whether or not it exists."""

    code = 53


class DelegationTokenAuthorizationFailedError(KafkaError):
    """The user may not do this with the delegation token or for its owner."""

    code = 65


class SecurityDisabledError(KafkaError):
    """The cluster has no authorizer, so it has no ACLs."""

    code = 54


class DelegationTokenRequestNotAllowedError(KafkaError):
    """Delegation tokens need an authenticated connection."""

    code = 64


class SaslAuthenticationFailedError(KafkaError):
    """The user name, password or token is wrong, or has expired."""

    code = 58


class IllegalSaslStateError(KafkaError):
    """SASL request on a connection without SASL."""

    code = 34


class UnsupportedSaslMechanismError(KafkaError):
    """The SASL mechanism is unknown, or its credentials cannot be stored."""

    code = 33


class UnacceptableCredentialError(KafkaError):
    """The SCRAM credential has no user name."""

    code = 93
