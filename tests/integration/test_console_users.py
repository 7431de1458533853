"""The console of a secured cluster: users sign in, and may do what the cluster allows them."""

from collections.abc import Iterator
from contextlib import contextmanager

import headrace
import pytest
from console_pages import Pages, plain
from headrace.services.console.pages import PAGES
from headrace.services.console.server import console_server
from headrace.services.web.settings import WebConfig
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER

USERS = {"admin": "admin-secret", "ann": "ann-secret"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    options = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin"}
    with headrace.local(nodes=1, security=headrace.Security(users=USERS), **options) as running:
        admin = running.admin()
        admin.create_topics(
            headrace.NewTopic("shared", 1), headrace.NewTopic("private", 1)
        ).raise_for_errors()
        yield running


@pytest.fixture(scope="module")
def url(cluster: headrace.LocalCluster) -> Iterator[str]:
    config = cluster.client_config()
    with console_server(WebConfig(port=0), bootstrap=cluster.bootstrap, client_config=config) as server:
        yield server.url


@contextmanager
def signed_in(url: str, user: str) -> Iterator[Pages]:
    with Pages(url) as client:
        response = client.http.post(
            "/sign-in", data={"username": user, "password": f"{user}-secret", "to": "/topics"}
        )
        assert response.status_code == 200, plain(response.text)
        yield client


@pytest.fixture
def stranger(url: str) -> Iterator[Pages]:
    """A client without a session."""
    with Pages(url) as client:
        yield client


@pytest.fixture
def admin(url: str) -> Iterator[Pages]:
    """The console as its administrator sees it."""
    with signed_in(url, "admin") as client:
        yield client


def test_pages_need_a_user(stranger: Pages) -> None:
    """Every page leads to the form, which leads back; a wrong password is refused, and too many are."""
    for page in PAGES:
        if page.method == "GET":
            path = page.path.replace("{name}", "shared").replace(":int}", "}").replace("{field}", "value")
            path = path.replace("{partition}", "0").replace("{offset}", "0").replace("{node_id}", "1")
            response = stranger.http.get(path, follow_redirects=False)
            assert (response.status_code, response.headers["location"].partition("?")[0]) == (
                303,
                "/sign-in",
            ), path
        else:
            assert stranger.http.post(page.path.replace("{name}", "shared")).status_code in (401, 404)
    assert 'value="/topics/shared?page=2"' in stranger.get("/topics/shared?page=2")
    for _ in range(5):
        refused = stranger.http.post("/sign-in", data={"username": "ann", "password": "wrong", "to": "/"})
        assert refused.status_code == 401
        assert "does not accept" in refused.text
        assert stranger.http.cookies.get("headrace_console") is None
    assert stranger.http.post("/sign-in", data={"username": "ann", "password": "x"}).status_code == 429


def test_cookie_is_strict_and_ends_with_the_session(stranger: Pages) -> None:
    response = stranger.http.post(
        "/sign-in",
        data={"username": "admin", "password": USERS["admin"], "to": "//evil.example/"},
        follow_redirects=False,
    )
    assert response.headers["location"] == "/"
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    kept = stranger.http.cookies["headrace_console"]
    assert "admin" in plain(stranger.get("/")) or "admin" in stranger.get("/")
    stranger.post("/sign-out")
    stranger.http.cookies.set("headrace_console", kept)
    assert stranger.http.get("/", follow_redirects=False).status_code == 303


def test_users_see_and_change_what_the_cluster_allows(
    url: str, admin: Pages, cluster: headrace.LocalCluster
) -> None:
    """The administrator makes a rule; ann then sees one topic, and cannot create another one."""
    admin.post(
        "/acls", type="TOPIC", name="shared", principal="User:ann", operation="READ", permission="ALLOW"
    )
    assert "User:ann" in plain(admin.get("/acls"))
    admin.post("/users", name="bob", password="bob-secret", again="bob-secret")
    assert "bob" in plain(admin.get("/users"))
    assert "differ" in plain(admin.post("/users", 400, name="bob", password="a", again="b"))
    admin.post("/roles", action="create", role="readers")
    admin.post("/roles", action="grant", role="readers", principal="User:bob")
    assert "User:bob" in plain(admin.get("/roles"))
    admin.post(
        "/acls", type="TOPIC", name="shared", principal="Role:readers", operation="READ", permission="ALLOW"
    )
    with cluster.producer() as producer:
        producer.send("shared", b"hello").result(10)
        producer.send("private", b"secret").result(10)
    with signed_in(url, "bob") as bob:
        found = plain(bob.get("/topics"))
        assert ("shared" in found, "private" in found) == (True, False)
        assert "hello" in bob.get("/topics/shared/messages")
        assert "secret" not in bob.http.get("/topics/private/messages").text
        refused = plain(bob.post("/new-topic", 400, name="mine", partitions="1", replication_factor="1"))
        assert "uthoriz" in refused
        assert "create rule" not in plain(bob.get("/events"))
        assert "create topic mine" in plain(bob.get("/events"))
    assert "create rule" in plain(admin.get("/events"))
    admin.post("/acls", delete="1", type="TOPIC", name="shared", principal="User:ann", operation="READ")
    assert "User:ann" not in plain(admin.get("/acls"))


def test_transaction_is_described_and_aborted(admin: Pages, cluster: headrace.LocalCluster) -> None:
    with cluster.producer(transactional_id="tx/<1>") as producer:
        producer.begin_transaction()
        producer.send("shared", b"open").result(10)
        assert "Ongoing" in plain(admin.get("/transactions"))
        assert "shared -0" in plain(admin.get("/transaction", id="tx/<1>"))
        refused = admin.http.post(
            "/transaction", params={"id": "tx/<1>"}, data={"csrf": admin.token(), "confirm": "x"}
        )
        assert "Nothing was changed" in plain(refused.text)
        done = admin.http.post(
            "/transaction", params={"id": "tx/<1>"}, data={"csrf": admin.token(), "confirm": "tx/<1>"}
        )
        assert "is aborted" in plain(done.text)
        with pytest.raises(headrace.HeadraceError):
            producer.commit_transaction()


def test_read_only_console_refuses_every_change(cluster: headrace.LocalCluster) -> None:
    """All routes of POST, with a valid token; the pages offer no change."""
    config = cluster.client_config()
    server = console_server(
        WebConfig(port=0), bootstrap=cluster.bootstrap, client_config=config, is_read_only=True
    )
    with server, signed_in(server.url, "admin") as admin:
        token = admin.token()
        for page in PAGES:
            if page.method == "POST":
                path = page.path.replace("{name}", "shared").replace("{node_id:int}", "1")
                response = admin.http.post(
                    path, params={"id": "x"}, data={"csrf": token, "confirm": "shared"}
                )
                assert response.status_code == 403, path
                assert "read-only" in plain(response.text)
        assert "shared" in {topic.name for topic in cluster.admin().list_topics()}
        assert "New topic" not in plain(admin.get("/topics"))
