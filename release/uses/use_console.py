"""`headrace console` serves a page with the records of a topic."""

from urllib.request import urlopen

import headrace
from served import serving

with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
    with cluster.producer() as producer:
        producer.send("orders", b"a record for the page").result(timeout=60)
    with serving("console", "-b", cluster.bootstrap, "--port", "0") as url:
        assert "orders" in urlopen(f"{url}/topics").read().decode()
        found = urlopen(f"{url}/topics/orders/messages?from=earliest").read().decode()
        assert "a record for the page" in found, found
