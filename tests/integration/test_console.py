"""The console with a real cluster, without a browser: pages, forms, hostile records and hostile requests."""

import asyncio
import csv
import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import headrace
import httpx
import pyarrow.parquet as pq
import pytest
from console_pages import Pages, plain
from hanging_transaction import hang
from headrace.clients.cluster.network import Address
from headrace.services.console.application import CONTENT_POLICY
from headrace.services.console.latencies_io import read_latencies
from headrace.services.console.masking import mask_rule
from headrace.services.console.pages import PAGES, messages
from headrace.services.console.server import console_server
from headrace.services.web.settings import WebConfig
from markers import until_markers_are_written
from waiting import wait_for

KEYS: dict[str, Any] = {
    "metrics_listener": "127.0.0.1:0",
    "transaction_partition_verification_enable": False,  # so that transactions can hang
}
HOSTILE = b"<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2, **KEYS) as running:
        running.admin().create_topics(
            headrace.NewTopic("orders", 3, 2, {"retention.ms": 3_600_000}),
            headrace.NewTopic("payments", 1, 1, {"max.message.bytes": 11 << 20}),
        ).raise_for_errors()
        with running.producer(max_request_size=11 << 20) as producer:
            for number in range(60):
                value = {"id": number, "amount": number * 10, "card": {"number": "4111"}}
                producer.send(
                    "orders", json.dumps(value).encode(), key=b"k%d" % number, headers={"from": "web"}
                )
            producer.send("payments", HOSTILE, key=b"\xff\xfe\xfd", headers=[("<b>", b"<i>")])
            producer.send("payments", b"<" * (10 << 20))
            producer.send("payments", None, key=b"tombstone")
            producer.flush()
        yield running


@pytest.fixture(scope="module")
def pages(cluster: headrace.LocalCluster) -> Iterator[Pages]:
    masks = (mask_rule("orders:value.card.number"),)
    server = console_server(WebConfig(port=0), bootstrap=cluster.bootstrap, masks=masks, name="shop")
    with server, Pages(server.url) as client:
        yield client


def test_every_page_loads_without_a_script(pages: Pages) -> None:
    """Each page without parameters: status 200, the policy of content, no script and no style in the page."""
    paths = [page.path for page in PAGES if page.method == "GET" and "{" not in page.path]
    for path in [each for each in paths if each not in ("/group", "/transaction", "/application")]:
        response = pages.http.get(path)
        assert response.status_code == 200, f"{path}\n{plain(response.text)}"
        assert response.headers["content-security-policy"] == CONTENT_POLICY
        assert response.headers["x-frame-options"] == "DENY"
        assert "style=" not in response.text
        assert response.text.count("<script") == response.text.count('<script src="/static/')
    assert "2 of 2" in plain(pages.get("/"))


def test_topic_from_creation_to_deletion(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """Create with a config, change it back, add partitions, see what deletion does, delete."""
    pages.post("/new-topic", name="made", partitions="2", replication_factor="2", configs="retention.ms=5000")
    assert "retention.ms" in plain(pages.get("/topics/made/configs"))
    pages.post("/topics/made/configs", name="retention.ms", reset="1")
    assert "0 configs are set on the topic" in plain(pages.get("/topics/made/configs"))
    refused = plain(pages.post("/topics/made/configs", 400, name="retention.ms", value="soon"))
    assert "retention.ms" in refused
    assert "4" in plain(pages.post("/topics/made/partitions", partitions="4"))
    assert len(cluster.admin().describe_topics("made")["made"].partitions) == 4
    assert "no group has committed offsets" in plain(pages.get("/topics/made/delete"))
    assert "Nothing was deleted" in plain(pages.post("/topics/made/delete", 400, confirm="mad"))
    pages.post("/topics/made/delete", confirm="made")
    assert "made" not in {topic.name for topic in cluster.admin().list_topics()}
    assert "no page" not in plain(pages.get("/topics/made", 404))
    actions = plain(pages.get("/events"))
    assert "create topic made done" in actions
    assert "delete topic made done" in actions
    assert "InvalidConfig" in actions or "soon" in actions


def test_records_are_found_by_their_fields(pages: Pages) -> None:
    """Key, header, text, expression, offset and time; masked members are neither shown nor found."""
    path = "/topics/orders/messages"
    found = pages.get(path, where="value.amount == 590")
    assert '"id&#34;: 59' in found or "&#34;id&#34;: 59" in found
    assert "1 of 60 records read" in plain(found)
    assert "4111" not in found
    assert "None of 60 records matches" in plain(pages.get(path, where='value.card.number == "4111"'))
    assert "1 of 60" in plain(pages.get(path, key="k42"))
    assert "50 of" in plain(pages.get(path, header="from=web"))
    assert "0 of 60" in plain(pages.get(path, header="from=app"))
    assert "position 7: '=' is no operator" in plain(pages.get(path, 400, where="value ="))
    assert "0 of 0" in plain(pages.get(path, start="time", time="2100-01-01"))
    assert "60 records" in plain(pages.get(path, start="oldest", limit="100"))


def test_pages_of_records_have_each_record_once(pages: Pages) -> None:
    """Newest first and oldest first, through all links to the next page."""
    for start in ("newest", "oldest"):
        offsets: list[str] = []
        path = f"/topics/orders/messages?start={start}&limit=25"
        for _ in range(10):
            found = pages.get(path)
            offsets += [part.partition('"')[0] for part in found.split('href="/topics/orders/')[1:]]
            _, _, link = found.partition('rel="next" href="')
            if not link:
                break
            path = "/topics/orders/messages" + link.partition('"')[0].replace("&amp;", "&")
        records = [each for each in offsets if each[0].isdecimal()]
        assert len(records) == len(set(records)) == 60, start


def test_download_has_the_records_of_the_search(pages: Pages) -> None:
    response = pages.http.get("/topics/orders/download", params={"where": "value.amount < 100"})
    assert "attachment" in response.headers["content-disposition"]
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert sorted(row["value"]["id"] for row in rows) == list(range(10))
    assert {row["value"]["card"]["number"] for row in rows} == {"●●●●"}


def test_downloads_are_files_of_other_programs(pages: Pages) -> None:
    """CSV and Parquet have the same masked records; another kind is refused."""
    query = {"where": "value.amount < 100"}
    response = pages.http.get("/topics/orders/download", params={**query, "as": "csv"})
    assert response.headers["content-disposition"] == 'attachment; filename="orders.csv"'
    lines = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert sorted(json.loads(line["value"])["id"] for line in lines) == list(range(10))
    assert "4111" not in response.text
    response = pages.http.get("/topics/orders/download", params={**query, "as": "parquet"})
    table = pq.read_table(io.BytesIO(response.content))
    assert sorted(json.loads(value.as_py())["id"] for value in table["value"]) == list(range(10))
    assert "a file is one of" in plain(pages.get("/topics/orders/download", 400, **{"as": "exe"}))


def test_downloads_have_a_bound(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """In records, and in bytes after which no further page is read."""
    monkeypatch.setattr(messages, "MOST_DOWNLOADED", 30)
    assert len(pages.http.get("/topics/orders/download").text.splitlines()) == 30
    monkeypatch.setattr(messages, "MOST_DOWNLOADED_BYTES", 0)
    assert pages.http.get("/topics/orders/download").text == ""


def test_hostile_records_are_only_text(pages: Pages) -> None:
    """HTML, terminal escapes, invalid UTF-8, 10 MB, null."""
    found = pages.get("/topics/payments/messages")
    assert "<script>alert" not in found
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m" in found
    assert "<b>" not in found
    assert "fffefd" in found
    assert "truncated" in found
    assert len(found) < 60_000
    large = pages.get("/topics/payments/0/1")
    assert len(large) < 600_000
    assert "the download has all 10.0 MB" in plain(large)
    raw = pages.http.get("/topics/payments/0/1/value")
    assert len(raw.content) == 10 << 20
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["content-security-policy"].startswith("sandbox")
    assert "null" in plain(pages.get("/topics/payments/0/2"))
    assert "has no record at offset 99" in plain(pages.get("/topics/payments/0/99", 404))
    assert "masked" in plain(pages.get("/topics/orders/0/0/value", 403))


def test_record_is_produced(pages: Pages) -> None:
    found = plain(
        pages.post("/topics/payments/produce", value='{"a":1}', value_format="json", key="x", headers="h=1")
    )
    assert '"a": 1' in found
    assert "not json" in plain(pages.post("/topics/payments/produce", 400, value="{", value_format="json"))
    assert "not hex" in plain(pages.post("/topics/payments/produce", 400, value="zz", value_format="hex"))


def test_group_is_reset_in_two_steps_and_deleted(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """Refused with members; the dry run changes nothing; what it showed is committed."""
    group = "billing/<eu>"
    with cluster.consumer(
        "orders", group=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        wait_for(lambda: consumer.poll(0.5), "records for the group")
        consumer.commit()
        refused = plain(
            pages.http.post(
                "/group/reset", params={"id": group}, data={"csrf": pages.token(), "rule": "earliest"}
            ).text
        )
        assert "stop them first" in refused
        assert "orders" in plain(pages.get("/group", id=group))
    admin = cluster.admin()
    before = admin.list_group_offsets(group)
    shown = pages.http.post(
        "/group/reset", params={"id": group}, data={"csrf": pages.token(), "rule": "earliest"}
    ).text
    assert "Nothing was changed yet" in plain(shown)
    assert admin.list_group_offsets(group) == before
    moves = [part.partition('"')[0] for part in shown.split('name="move" value="')[1:]]
    done = pages.http.post(
        "/group/reset", params={"id": group}, data={"csrf": pages.token(), "step": "execute", "move": moves}
    )
    assert "3 partitions are reset" in plain(done.text)
    assert {each.offset for each in admin.list_group_offsets(group).values() if each} == {0}
    wait_for(lambda: group in plain(pages.get("/groups", q="BILLING")), "the group in the list")
    pages.http.post("/group/delete", params={"id": group}, data={"csrf": pages.token(), "confirm": group})
    assert group not in {each.group_id for each in admin.list_groups()}


def test_node_is_drained_and_active_again(pages: Pages, cluster: headrace.LocalCluster) -> None:
    pages.post("/nodes/2/drain")
    wait_for(lambda: "drained or stopping" in pages.get("/nodes/2"), "the drained state")
    pages.post("/nodes/2/drain", to="active")
    wait_for(lambda: "drained or stopping" not in pages.get("/nodes/2"), "the active state")


def test_reassignment_is_planned_then_started(pages: Pages, cluster: headrace.LocalCluster) -> None:
    shown = pages.post("/moves/plan", topics="payments", factor="2")
    assert "Replicas to copy 1" in plain(shown)
    plan = shown.partition('spellcheck="false">')[2].partition("</textarea>")[0].replace("&#34;", '"')
    pages.post("/moves/start", plan=plan)
    admin = cluster.admin()
    wait_for(
        lambda: len(admin.describe_topics("payments")["payments"].partitions[0].isr) == 2, "the new replica"
    )
    assert "nothing to move" in plain(pages.post("/moves/plan", topics="payments", factor="2"))
    assert "make 2 nodes" not in plain(pages.post("/moves/plan", 400, topics="payments", factor="3"))


def test_hanging_transaction_is_aborted(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """It is found by its age; the abort in an unknown topic fails."""
    hang(cluster, "payments", producer_id=4_000_000)
    assert "There is no hanging transaction" in plain(pages.get("/hanging", minutes="9999999"))
    found = pages.get("/hanging")
    assert "payments -0 unknown 4000000" in plain(found)
    names = ("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch")
    fields = {name: found.partition(f'name="{name}" value="')[2].partition('"')[0] for name in names}
    pages.post("/hanging", 400, **{**fields, "topic": "nowhere"})
    done = plain(pages.post("/hanging", **fields))
    assert "the transaction of producer 4000000 in payments-0 is aborted" in done
    assert "There is no hanging transaction" in done
    assert "abort hanging transaction producer 4000000 in payments-0 done" in plain(pages.get("/events"))


def test_group_list_has_exact_lags(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """Records that a consumer receives: the aborted record and the markers are no lag."""
    admin, tp = cluster.admin(), headrace.TopicPartition("payments", 0)
    ends = admin.list_offsets({tp: headrace.LATEST})[tp].offset
    with cluster.producer(transactional_id="lagging") as producer:
        for is_commit in (False, True):
            producer.begin_transaction()
            producer.send("payments", b"x", partition=0)
            producer.flush()
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    until_markers_are_written(cluster)
    admin.alter_group_offsets("exact", {tp: ends}, create=True).raise_for_errors()
    assert admin.list_offsets({tp: headrace.LATEST})[tp].offset == ends + 4
    wait_for(lambda: "exact classic Empty payments 1" in plain(pages.get("/groups", q="exact")), "its lag")
    assert "exact classic Empty 1" in plain(pages.get("/topics/payments/groups"))


def test_node_shows_times_of_requests(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """From its endpoint for Prometheus, if the port is known."""
    assert "no metrics.listener with a port" in plain(pages.get("/nodes/1"))
    url = httpx.URL(cluster.status()["nodes"][0]["telemetry"]["prometheus"])
    found = asyncio.run(read_latencies(Address(url.host, url.port or 0)))
    (produced,) = [each for each in found if each.request == "Produce"]
    assert produced.number > 0
    assert 0 < produced.p50_ms <= produced.p99_ms
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError):
            asyncio.run(read_latencies(Address("127.0.0.1", taken.getsockname()[1])))


def test_quotas_and_subscriptions(pages: Pages) -> None:
    pages.post("/quotas", **{"has-user": "1", "user": "<ann>", "name": "producer_byte_rate", "value": "1024"})
    assert "<ann> producer_byte_rate 1024" in plain(pages.get("/quotas"))
    pages.post("/quotas", **{"has-user": "1", "user": "<ann>", "name": "producer_byte_rate", "delete": "1"})
    assert "There are no quotas" in plain(pages.get("/quotas"))
    assert "not a number" in plain(pages.post("/quotas", 400, **{"has-ip": "1", "ip": "::1", "value": "x"}))
    pages.post("/telemetry", name="all", metrics="*")
    assert "all" in plain(pages.get("/telemetry"))
    pages.post("/telemetry", name="all", delete="1")
    assert "There are no subscriptions" in plain(pages.get("/telemetry"))


def test_forms_of_other_pages_are_refused(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """Without the token, with that of another session, and from another origin."""
    fields = {"name": "stolen", "partitions": "1"}
    assert pages.http.post("/new-topic", data=fields).status_code == 403
    assert pages.http.post("/new-topic", data={"csrf": "0" * 64, **fields}).status_code == 403
    with httpx.Client(base_url=pages.http.base_url) as other:
        token = pages.token()
        assert other.post("/new-topic", data={"csrf": token, **fields}).status_code == 403
    evil = {"origin": "https://evil.example"}
    assert (
        pages.http.post("/new-topic", data={"csrf": pages.token(), **fields}, headers=evil).status_code == 403
    )
    assert pages.http.get("/", headers={"host": "evil.example"}).status_code == 421
    assert "stolen" not in {topic.name for topic in cluster.admin().list_topics()}


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/%2e%2e/application.py",
        "/static/..%2fshared.py",
        "/topics/..%2f..%2fetc",
    ],
)
def test_paths_do_not_leave_the_console(pages: Pages, path: str) -> None:
    response = pages.http.get(path)
    assert response.status_code in (400, 404)
    assert "import" not in response.text


def test_static_files_have_their_types(pages: Pages) -> None:
    for name, kind in (
        ("console.css", "text/css"),
        ("htmx.min.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ):
        response = pages.http.get(f"/static/{name}")
        assert (response.status_code, response.headers["content-type"].partition(";")[0]) == (200, kind)
