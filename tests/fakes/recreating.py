"""Deletes and creates topics, for tests that then read from nodes whose metadata may be older."""

import asyncio
from typing import Any

from headrace import LocalCluster, NewTopic
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.transport.dealer_io import Connection
from waiting import wait_for

ASK_TIMEOUT_S = 60.0


def recreate(cluster: LocalCluster, topic: NewTopic) -> None:
    """Delete and create the topic; returns when all nodes have the metadata of the new one."""
    admin = cluster.admin()
    before = admin.describe_topics(topic.name)[topic.name].topic_id
    admin.delete_topics(topic.name).raise_for_errors()
    admin.create_topics(topic).raise_for_errors()

    def is_known() -> bool:
        answers = asyncio.run(_metadata_of_each_node(cluster, topic.name))
        return all(answer.error_code == 0 and answer.topic_id != before for answer in answers)

    wait_for(is_known, f"all nodes know the new topic {topic.name}")


async def _metadata_of_each_node(cluster: LocalCluster, topic: str) -> list[Any]:
    async def ask(address: str) -> Any:
        host, _, port = address.rpartition(":")
        connection = await Connection.open(host, int(port), client_id="observer", timeout_s=ASK_TIMEOUT_S)
        try:
            request = MetadataRequest((topic,))
            answer = await connection.request(registry.METADATA, request, timeout_s=ASK_TIMEOUT_S)
            return answer.body.topics[0]
        finally:
            connection.close()

    return await asyncio.gather(*map(ask, cluster.bootstrap.split(",")))
