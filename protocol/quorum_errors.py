"""Wire errors of changes of the controller quorum. Import them from errors.py. Source: Kafka Errors.java."""

from __future__ import annotations

from .client_errors import KafkaError


class InvalidVoterKeyError(KafkaError):
    """The request names another voter, or a former directory id of this one."""

    code = 125


class DuplicateVoterError(KafkaError):
    """A voter with this id exists; if it has lost its disk, remove it first."""

    code = 126


class VoterNotFoundError(KafkaError):
    """No voter has this id and directory."""

    code = 127
