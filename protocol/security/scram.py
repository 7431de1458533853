"""SCRAM: credentials, and the exchange of a server and of a client. Pure: nonces are arguments.

Passwords are UTF-8 without SASLprep, as in Kafka. No channel binding.

Source: RFC 5802, RFC 7677; Kafka ScramFormatter.java, ScramMessages.java, ScramSaslServer.java,
ScramSaslClient.java.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .principals import Principal

MINIMUM_ITERATIONS = 4096
MAXIMUM_ITERATIONS = 16384  # of stored credentials, as in Kafka
MAXIMUM_MESSAGE_BYTES = 16_384
# Bound: iterations that a client accepts from a server; 1,000,000 take about half a second.
MAXIMUM_CLIENT_ITERATIONS = 1_000_000
NONCE_BYTES = 18  # random bytes of a nonce: 144 bits, Kafka has 130
SALT_BYTES = 24

_SASLNAME = r"(?:[^\x00=,]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>n=(?P<saslname>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^\x00=,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
_EXTENSION = "tokenauth"


class ScramError(Exception):
    """The exchange failed: a message that is not SCRAM, a wrong password, an unknown user."""


class ScramMechanism(IntEnum):
    """The hash of an exchange, with Kafka's codes."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """`SCRAM-SHA-256` or `SCRAM-SHA-512`."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash, as hashlib names it."""
        return _HASHES[self]

    @property
    def key_bytes(self) -> int:
        """Length of the keys."""
        return hashlib.new(_HASHES[self]).digest_size


_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
SCRAM_MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in _HASHES}


class ScramCredential(NamedTuple):
    """The part of a password that a server stores: it can verify the password, but not authenticate with it.
    Not printed."""

    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism.sasl_name}, iterations={self.iterations}, ...)"


class ScramAccount(NamedTuple):
    """A credential, and the principal that it authenticates: a user, or the owner of a token."""

    credential: ScramCredential
    principal: Principal
    expires_ms: int | None = None  # wall clock, of a token
    token_id: str = ""


LookUp = Callable[[str, bool], ScramAccount | None]
"""Account of a user name; of a token id if the second argument is true."""


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password: `Hi` of the RFC. Takes milliseconds, without the GIL."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    stored_key = _hash(mechanism, _client_key(mechanism, salted))
    return ScramCredential(mechanism, salt, stored_key, _server_key(mechanism, salted), iterations)


def credential_from_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = MINIMUM_ITERATIONS
) -> ScramCredential:
    """The credential of a password, with a salt of `SALT_BYTES` random bytes."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def nonce_of(random_bytes: bytes) -> str:
    """A nonce of `NONCE_BYTES` random bytes."""
    return b64encode(random_bytes).decode()


def escaped(username: str) -> str:
    """A user name as a saslname."""
    return username.replace("=", "=3D").replace(",", "=2C")


def unescaped(saslname: str) -> str:
    """The user name of a saslname. Errors: ScramError for an `=` that escapes nothing."""
    if "=" in saslname.replace("=2C", "").replace("=3D", ""):
        raise ScramError("the user name has an invalid escape")
    return saslname.replace("=2C", ",").replace("=3D", "=")


class _State(Enum):
    FIRST = auto()
    FINAL = auto()
    COMPLETE = auto()
    FAILED = auto()


class ScramServer:
    """One exchange of a server: `step` takes each message of the client and returns the response.

    After the second step `account` is the authenticated one. A ScramError ends the exchange; its text, with
    the reason, is for the server's log only: the client learns only that authentication failed.
    """

    def __init__(self, mechanism: ScramMechanism, look_up: LookUp, nonce: str) -> None:
        self.mechanism = mechanism
        self.account: ScramAccount | None = None
        self.username = ""
        self._look_up, self._nonce = look_up, nonce
        self._candidate: ScramAccount | None = None
        self._gs2 = self._first_bare = self._server_first = ""
        self._state = _State.FIRST

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved that it has the password."""
        return self._state is _State.COMPLETE

    def step(self, message: bytes) -> bytes:
        """The response to a message. Errors: ScramError; the exchange has ended."""
        state, self._state = self._state, _State.FAILED
        if state is _State.FIRST:
            answer, self._state = self._first(message), _State.FINAL
        elif state is _State.FINAL:
            answer, self._state = self._final(message), _State.COMPLETE
        else:
            raise ScramError("a message after the end of the exchange")
        return answer.encode()

    def _first(self, message: bytes) -> str:
        found = _matched(_CLIENT_FIRST, message, "first message of the client")
        self.username = unescaped(found["saslname"])
        by_token = _extensions(found["extensions"]).get(_EXTENSION, "").lower() == "true"
        account = self._look_up(self.username, by_token)
        if account is None or account.credential.mechanism is not self.mechanism:
            raise ScramError("the user has no SCRAM credential")
        if found["authzid"] is not None and unescaped(found["authzid"]) != self.username:
            raise ScramError("the client requests an authorization id other than its user name")
        if account.credential.iterations < MINIMUM_ITERATIONS:
            raise ScramError(f"the credential has {account.credential.iterations} iterations, too few")
        self._candidate, self._gs2, self._first_bare = account, found["gs2"], found["bare"]
        self._nonce = found["nonce"] + self._nonce
        salt = b64encode(account.credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={account.credential.iterations}"
        return self._server_first

    def _final(self, message: bytes) -> str:
        found = _matched(_CLIENT_FINAL, message, "final message of the client")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise ScramError("the nonce is not the one of this exchange")
        if b64decode(found["channel"]) != self._gs2.encode():
            raise ScramError("the channel binding is not the one of the first message")
        assert self._candidate is not None
        credential = self._candidate.credential
        signed = f"{self._first_bare},{self._server_first},{found['without_proof']}".encode()
        signature = _mac(self.mechanism, credential.stored_key, signed)
        proof = b64decode(found["proof"])
        if len(proof) != len(signature):
            raise ScramError("the proof has the wrong length")
        if not hmac.compare_digest(_hash(self.mechanism, _xor(proof, signature)), credential.stored_key):
            raise ScramError("the password is wrong")
        self.account = self._candidate
        return f"v={b64encode(_mac(self.mechanism, credential.server_key, signed)).decode()}"


class ScramClient:
    """One exchange of a client: `first()`, then `step` with each message of the server.

    An empty response ends it. `by_token`: the user name is the id of a delegation token,
    and the password its HMAC in base64.
    """

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        self.mechanism = mechanism
        self._password, self._nonce = password, nonce
        extension = f",{_EXTENSION}=true" if by_token else ""
        self._first_bare = f"n={escaped(username)},r={nonce}{extension}"
        self._server_signature = b""
        self._state = _State.FIRST

    @property
    def is_complete(self) -> bool:
        """Whether the server has proved that it has the credential."""
        return self._state is _State.COMPLETE

    def first(self) -> bytes:
        """The first message."""
        return f"n,,{self._first_bare}".encode()

    def step(self, message: bytes) -> bytes:
        """The response to a message of the server. Errors: ScramError; the exchange has ended."""
        state, self._state = self._state, _State.FAILED
        if state is _State.FIRST:
            answer, self._state = self._final(message), _State.FINAL
        elif state is _State.FINAL:
            self._verify(message)
            answer, self._state = "", _State.COMPLETE
        else:
            raise ScramError("a message after the end of the exchange")
        return answer.encode()

    def _final(self, message: bytes) -> str:
        found = _matched(_SERVER_FIRST, message, "first message of the server")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not continue the client's")
        if not MINIMUM_ITERATIONS <= iterations <= MAXIMUM_CLIENT_ITERATIONS:
            raise ScramError(f"the server requires {iterations} iterations, too few or too many")
        salted = salted_password(self.mechanism, self._password, b64decode(found["salt"]), iterations)
        without_proof = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._first_bare},{message.decode()},{without_proof}".encode()
        client_key = _client_key(self.mechanism, salted)
        proof = _xor(client_key, _mac(self.mechanism, _hash(self.mechanism, client_key), signed))
        self._server_signature = _mac(self.mechanism, _server_key(self.mechanism, salted), signed)
        return f"{without_proof},p={b64encode(proof).decode()}"

    def _verify(self, message: bytes) -> None:
        found = _matched(_SERVER_FINAL, message, "final message of the server")
        if found["error"] is not None:
            raise ScramError(f"the server refused: {found['error']}")
        if not hmac.compare_digest(b64decode(found["signature"]), self._server_signature):
            raise ScramError("the server has not proved that it has the credential of this user")


def _matched(pattern: re.Pattern[str], message: bytes, what: str) -> dict[str, Any]:
    """The named parts of a message; None for a part that is missing. Errors: ScramError."""
    if len(message) > MAXIMUM_MESSAGE_BYTES:
        raise ScramError(f"the {what} is longer than {MAXIMUM_MESSAGE_BYTES} bytes")
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise ScramError(f"the {what} is not valid")
    return found.groupdict()


def _extensions(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: value for name, _, value in pairs}


def _hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()


def _mac(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash_name)


def _client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return _mac(mechanism, salted, b"Client Key")


def _server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return _mac(mechanism, salted, b"Server Key")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
