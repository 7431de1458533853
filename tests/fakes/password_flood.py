"""Wrong passwords as fast as one process can send them: `password_flood.py PLANE ADDRESS MECHANISM SECONDS
CONNECTIONS [SERVER_KEY]`. The time begins with the first answer. Prints the number of attempts that were
answered, and of those that were not.

Each connection makes one attempt. PLANE is kafka (a listener with SASL_PLAINTEXT) or native (CURVE).
"""

import base64
import selectors
import socket
import struct
import sys
import time
from typing import Any

USER, WRONG = "alice", "wr0ng-pa55word"
LIMIT_S = 60.0  # without any answer
_CLIENT = "c" * 24  # nonce; the attacker need not be random
_PROOF_BYTES = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}


class _Clock:
    """Runs for some seconds after the first answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end_s = seconds, time.monotonic() + LIMIT_S

    def is_over(self, answers: int) -> bool:
        if answers and self._seconds:
            self._end_s, self._seconds = time.monotonic() + self._seconds, 0.0
        return time.monotonic() >= self._end_s


def first_message(mechanism: str) -> bytes:
    """The first SASL message."""
    if mechanism == "PLAIN":
        return f"\0{USER}\0{WRONG}".encode()
    return f"n,,n={USER},r={_CLIENT}".encode()


def last_message(mechanism: str, challenge: bytes) -> bytes:
    """The last message of SCRAM, with a wrong proof."""
    proof = base64.b64encode(bytes(_PROOF_BYTES[mechanism])).decode()
    nonce = challenge.partition(b"r=")[2].partition(b",")[0].decode()
    return f"c=biws,r={nonce},p={proof}".encode()


# --- Kafka's protocol ---------------------------------------------------------------------------------------


def _request(api: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", api, version, 1, 1) + b"x" + body
    return struct.pack(">i", len(frame)) + frame


def _authenticate(data: bytes) -> bytes:
    return _request(36, 1, struct.pack(">i", len(data)) + data)


class _Attempt:
    """One connection of the flood on a listener for Kafka clients."""

    def __init__(self, address: tuple[str, int], mechanism: str) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(address)
        self._mechanism, name = mechanism, mechanism.encode()
        self._given = _request(17, 1, struct.pack(">h", len(name)) + name) + _authenticate(
            first_message(mechanism)
        )
        self._steps = 2 if mechanism == "PLAIN" else 3  # answers
        self._received = b""

    def ready(self) -> bool:
        """Go on; True at the end. Errors: OSError."""
        if self._given:
            self.socket.send(self._given)
            self._given = b""
            return False
        data = self.socket.recv(4096)
        if not data:
            raise ConnectionError("closed without an answer")
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4]) + 4
            if len(self._received) < size:
                break
            frame, self._received = self._received[:size], self._received[size:]
            self._steps -= 1
            if self._steps == 1 and b"r=" in frame:
                self.socket.send(_authenticate(last_message(self._mechanism, frame)))
        return self._steps == 0


def flood_kafka(
    address: tuple[str, int], mechanism: str, seconds: float, connections: int
) -> tuple[int, int]:
    """Attempts with and without an answer."""
    done, failed, clock = 0, 0, _Clock(seconds)
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            made = _Attempt(address, mechanism)
            selector.register(made.socket, selectors.EVENT_WRITE, made)

        for _ in range(connections):
            begin()
        while not clock.is_over(done):
            for key, events in selector.select(0.1):
                made = key.data
                try:
                    is_over = made.ready()
                except OSError:
                    is_over, failed = True, failed + 1
                    done -= 1
                if is_over:
                    done += 1
                    selector.unregister(made.socket)
                    made.socket.close()
                    begin()
                elif events & selectors.EVENT_WRITE:
                    selector.modify(made.socket, selectors.EVENT_READ, made)
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return done, failed


# --- headrace's protocol ------------------------------------------------------------------------------------


class _NativeAttempt:
    """One connection of the flood on the native plane."""

    def __init__(
        self, address: tuple[str, int], mechanism: str, key: bytes, own: tuple[bytes, bytes]
    ) -> None:
        import zmq
        from headrace.protocol.messages.envelope import ApiVersionsRequest
        from headrace.protocol.messages.registry import API_VERSIONS

        self.mechanism, self.session, self.steps, self.began_s = mechanism, 0, 0, time.monotonic()
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.setsockopt(zmq.CURVE_SERVERKEY, key)
        self.socket.setsockopt(zmq.CURVE_PUBLICKEY, own[0])
        self.socket.setsockopt(zmq.CURVE_SECRETKEY, own[1])
        self.socket.connect("tcp://{}:{}".format(*address))
        self._ask(API_VERSIONS, ApiVersionsRequest("flood", "0", "flood"))

    def _ask(self, api: Any, body: Any) -> None:
        from headrace.protocol.messages.envelope import RequestHeader
        from headrace.protocol.transport import wire

        header = wire.encode(RequestHeader(api.key, 0, self.steps, self.session))
        self.socket.send_multipart((header, wire.encode(body)))

    def ready(self) -> bool:
        """Go on; True at the end."""
        from headrace.protocol.messages.registry import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
        from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
        from headrace.protocol.transport import wire

        _, body = self.socket.recv_multipart()[:2]
        self.steps += 1
        if not body:
            return True  # an error in the header: refused
        if self.steps == 1:
            self.session = wire.response_decoder(API_VERSIONS)(body).session
            self._ask(SASL_HANDSHAKE, SaslHandshakeRequest(self.mechanism))
            self._ask(SASL_AUTHENTICATE, SaslAuthenticateRequest(first_message(self.mechanism)))
        elif self.steps == 3:
            challenge = wire.response_decoder(SASL_AUTHENTICATE)(body).auth_bytes
            self._ask(SASL_AUTHENTICATE, SaslAuthenticateRequest(last_message(self.mechanism, challenge)))
        return False


def flood_natively(
    address: tuple[str, int], mechanism: str, seconds: float, connections: int, key: str
) -> tuple[int, int]:
    """Attempts with and without an answer within five seconds."""
    import zmq

    zmq.Context.instance().set(zmq.MAX_SOCKETS, 16_384)
    own, server_key = zmq.curve_keypair(), bytes.fromhex(key)
    done, failed, clock = 0, 0, _Clock(seconds)
    poller, attempts = zmq.Poller(), {}

    def begin() -> None:
        made = _NativeAttempt(address, mechanism, server_key, own)
        attempts[made.socket] = made
        poller.register(made.socket, zmq.POLLIN)

    def finish(made: _NativeAttempt) -> None:
        poller.unregister(made.socket)
        del attempts[made.socket]
        made.socket.close(0)

    for _ in range(connections):
        begin()
    while not clock.is_over(done):
        for ready, _ in poller.poll(100):
            made = attempts[ready]
            if made.ready():
                finish(made)
                done += 1
                begin()
        for made in [each for each in attempts.values() if time.monotonic() - each.began_s > 5]:
            finish(made)
            failed += 1
            begin()
    for made in list(attempts.values()):
        finish(made)
    return done, failed


if __name__ == "__main__":
    plane, where, sasl, seconds, count, *rest = sys.argv[1:]
    host, _, port = where.rpartition(":")
    if plane == "kafka":
        answered, unanswered = flood_kafka((host, int(port)), sasl, float(seconds), int(count))
    else:
        answered, unanswered = flood_natively((host, int(port)), sasl, float(seconds), int(count), *rest)
    sys.stdout.write(f"{answered} {unanswered}\n")
