"""`headrace rest` takes a record by each version of the paths, and gives it to a version 2 consumer."""

import json
from urllib.request import Request, urlopen

import headrace
from served import serving


def call(url, document=None, kind="application/json"):
    data = None if document is None else json.dumps(document).encode()
    with urlopen(Request(url, data, {"Content-Type": kind})) as response:
        return json.load(response)


with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
    with serving("rest", "-b", cluster.bootstrap, "--port", "0") as url:
        (found,) = call(f"{url}/v3/clusters")["data"]
        records = f"{url}/v3/clusters/{found['cluster_id']}/topics/orders/records"
        report = call(records, {"value": {"type": "JSON", "data": {"total": 7}}})
        assert (report["error_code"], report["offset"]) == (200, 0), report
        document = {"records": [{"value": {"total": 9}}]}
        sent = call(f"{url}/topics/orders", document, "application/vnd.kafka.json.v2+json")
        assert sent["offsets"][0]["offset"] == 1, sent
    with cluster.consumer("orders", auto_offset_reset="earliest", iter_timeout=2.0) as consumer:
        assert [json.loads(record.value)["total"] for record in consumer] == [7, 9]
