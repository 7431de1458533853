"""Which requests are let in, and that their account is always right."""

from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.messages.registry import CREATE_TOPICS, METADATA
from headrace.protocol.transport import wire
from headrace.protocol.transport.admission import Admission
from headrace.protocol.transport.authentication import ListenerAuthentication
from headrace.protocol.transport.peers import Peer, PeerTable, RouterLimits, ServerIdentity
from headrace.protocol.transport.pending import PendingBytes
from transport_kit import APIS, ASK

BODY = wire.encode(ASK)


class Rig:
    """An admission with one peer of session 5 already inside."""

    def __init__(self, **limits: Any) -> None:
        self.limits = RouterLimits(**limits)
        self.peers = PeerTable(self.limits.max_peers)
        self.pending = PendingBytes()
        self.identity = ServerIdentity()
        kinds = ListenerAuthentication(None, APIS)
        self.admission = Admission(kinds, self.identity, self.limits, self.peers, self.pending)
        self.peer = Peer(b"k", 5, served=kinds.all)
        self.peers.admit(self.peer)

    def send(
        self,
        key: bytes = b"k",
        api: int = METADATA.key,
        version: int = 0,
        session: int = 5,
        body: bytes = BODY,
        frames: tuple[bytes, ...] = (),
    ) -> Any:
        header = RequestHeader(api, version, 77, session)
        return self.admission.let_in(key, header, body, [memoryview(frame) for frame in frames], 1000)


def test_a_good_request_is_decoded_and_counted_until_it_is_settled() -> None:
    """Body and frames count against the server, the request against its peer; both go back to zero."""
    rig = Rig()
    request = rig.send(frames=(b"abc", b"de"))
    assert request.body == ASK
    assert request.raw_body == BODY
    assert request.correlation_id == 77
    assert request.queued_bytes == rig.admission.queued_bytes == len(BODY) + 5
    assert rig.peer.in_flight == 1
    assert rig.admission.settle(request, 2000) is rig.peer
    assert rig.admission.queued_bytes == rig.peer.in_flight == 0
    assert rig.peer.last_seen_ms == 2000


@pytest.mark.parametrize(
    ("request_facts", "error"),
    [
        ({"key": b"unknown"}, errors.NetworkError),
        ({"session": 0}, errors.NetworkError),
        ({"session": 6}, errors.NetworkError),
        ({"api": 9999}, errors.UnsupportedVersionError),
        ({"api": -1}, errors.UnsupportedVersionError),
        ({"api": CREATE_TOPICS.key}, errors.UnsupportedVersionError),
        ({"version": 1}, errors.UnsupportedVersionError),
        ({"version": -1}, errors.UnsupportedVersionError),
        ({"body": b""}, errors.InvalidRequestError),
        ({"body": b"\xc1"}, errors.InvalidRequestError),
        ({"body": BODY + b"\x00"}, errors.InvalidRequestError),
    ],
)
def test_refused_requests_are_not_counted(
    request_facts: dict[str, Any], error: type[errors.KafkaError]
) -> None:
    """No session, wrong session, unknown API or version, invalid body: an error, and no held resources."""
    rig = Rig()
    with pytest.raises(error):
        rig.send(**request_facts)
    assert rig.admission.queued_bytes == rig.peer.in_flight == 0


def test_a_peer_has_a_limit_of_requests_under_way() -> None:
    """Two are under way: the third is refused until one is settled."""
    rig = Rig(max_in_flight=2)
    first, _ = rig.send(), rig.send()
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        rig.send()
    rig.admission.settle(first, 0)
    rig.send()


def test_refusing_does_not_decode() -> None:
    """Over the limit even a broken body gets the throttle: no work is done for a flood."""
    rig = Rig(max_in_flight=0)
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        rig.send(body=b"\xc1")


def test_all_requests_share_a_limit_of_bytes() -> None:
    """100 bytes for all: a second request of 60 is refused, yet one alone may be larger than the limit."""
    rig = Rig(max_queued_bytes=100)
    first = rig.send(frames=(b"x" * 60,))
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="queued"):
        rig.send(frames=(b"x" * 60,))
    rig.admission.settle(first, 0)
    rig.send(frames=(b"x" * 500,))


def test_unread_responses_stop_new_requests() -> None:
    """First at the peer's share of unread bytes, then at the limit of all; reading frees both."""
    rig = Rig(
        max_response_bytes_pending=100, max_peer_response_bytes_pending=50, free_response_bytes_pending=10
    )
    view = rig.pending.track(b"k", b"x" * 51)
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="this connection"):
        rig.send()
    del view
    others = rig.pending.track(b"other", b"x" * 101)
    rig.send()  # it has read its responses: the backlog of other peers does not count
    own = rig.pending.track(b"k", b"x" * 11)
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="too many unread"):
        rig.send()
    del own
    del others
    rig.send()


def test_a_request_is_settled_once() -> None:
    """Answering twice is a bug of the server and stops it."""
    rig = Rig()
    request = rig.send()
    rig.admission.settle(request, 0)
    with pytest.raises(AssertionError, match="exactly once"):
        rig.admission.settle(request, 0)


def test_handshake_has_the_current_identity_of_the_server() -> None:
    """The owner sets cluster, node and incarnation after the router was made."""
    rig = Rig(max_in_flight=9, idle_timeout_ms=1234, max_request_bytes=5000)
    rig.identity.cluster_id, rig.identity.node_id, rig.identity.incarnation = "c", 4, 8
    hello = ApiVersionsRequest("some\nsoftware", "from the year 3000", "id\n")
    peer = Peer(b"new", 17)
    welcome = rig.admission.welcome(peer, hello)
    assert (welcome.cluster_id, welcome.node_id, welcome.incarnation, welcome.session) == ("c", 4, 8, 17)
    assert (welcome.max_in_flight, welcome.idle_timeout_ms, welcome.max_request_bytes) == (9, 1234, 5000)
    assert [served.api_key for served in welcome.apis] == [api.key for api in APIS]
    assert (peer.software, peer.client_id) == ("some\\nsoftware from the year 3000", "id\\n")
    assert rig.peers.get(b"new") is peer


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        (1, ApiVersionsRequest("s", "1"), errors.UnsupportedVersionError),
        (0, ApiVersionsRequest("s", "1", "c", 2), errors.UnsupportedVersionError),
        (0, ApiVersionsRequest("s", "1", "c", 0), errors.UnsupportedVersionError),
        (0, ["too short"], errors.InvalidRequestError),
    ],
)
def test_a_handshake_of_another_protocol_is_refused(
    version: int, body: object, error: type[errors.KafkaError]
) -> None:
    """Wrong version of the api or of the protocol, or no handshake: the response says which."""
    with pytest.raises(error):
        Rig().admission.read_hello(b"new", RequestHeader(18, version, 1), wire.encode(body))


def test_a_request_above_the_limit_is_refused_although_each_frame_is_below() -> None:
    """It counts as one of the connection's messages: it was complete."""
    rig = Rig(max_request_bytes=1000)
    text = r"a request of 10\d\d bytes; socket\.request\.max\.bytes is 1000"
    with pytest.raises(errors.InvalidRequestError, match=text):
        rig.send(frames=(bytes(500), bytes(500)))
    assert (rig.peer.in_flight, rig.admission.queued_bytes, rig.peer.messages) == (0, 0, 1)
    rig.send(frames=(bytes(500), bytes(500 - len(BODY))))
