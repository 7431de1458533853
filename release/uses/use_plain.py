"""The package without extras: records through a cluster."""

import headrace

with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
    with cluster.producer() as producer:
        producer.send_many("t", [b"%d" % number for number in range(5)]).raise_for_errors(timeout=60)
    with cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=2.0) as consumer:
        assert [record.value for record in consumer] == [b"0", b"1", b"2", b"3", b"4"]
