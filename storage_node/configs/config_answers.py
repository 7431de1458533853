"""DescribeConfigs of a node: topics and itself from its own image and file; the cluster-wide configs come
from the controller. Pure. Source: Kafka ConfigHelper.scala."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...protocol.errors import NO_ERROR, InvalidRequestError, KafkaError
from ...protocol.messages.control import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from ...protocol.metadata.image import CLUSTER_DEFAULT, TOPIC_RESOURCE
from .config_entries import Describer, existing
from .logger_configs import describe_loggers, is_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.metadata.image import MetadataImage
    from .live_config import LiveConfig
    from .logger_configs import Loggers

MAX_RESOURCES = 1000  # Bound: of one request; each is described key by key


def cluster_part(request: DescribeConfigsRequest) -> DescribeConfigsRequest:
    """The part of the request for the controller. Errors: InvalidRequestError for too many resources."""
    if len(request.resources) > MAX_RESOURCES:
        raise InvalidRequestError(f"{len(request.resources)} resources, at most {MAX_RESOURCES} are allowed")
    cluster_wide = tuple(each for each in request.resources if _is_cluster(each))[:1]
    return msgspec.structs.replace(request, resources=cluster_wide)


def answer_configs(
    image: MetadataImage,
    live: LiveConfig,
    node_id: int,
    request: DescribeConfigsRequest,
    of_cluster: DescribeConfigsResponse,
    loggers: Loggers,
) -> DescribeConfigsResponse:
    """The descriptions in the order of the request."""
    describer = Describer(image.configs, request, live, node_id)
    results: list[DescribedConfigs] = []
    for resource in request.resources:
        if _is_cluster(resource):
            results.extend(of_cluster.results[:1])
            continue
        if is_logger(resource):
            results.append(describe_loggers(node_id, resource, loggers))
            continue
        try:
            entries = describer.resource(existing(image, resource))
        except KafkaError as error:
            results.append(DescribedConfigs(resource, error.code, str(error)))
        else:
            results.append(DescribedConfigs(resource, NO_ERROR, "", entries))
    return DescribeConfigsResponse(tuple(results), image.offset)


def configs_of_new(
    image: MetadataImage, live: LiveConfig, node_id: int, topics: Mapping[str, Mapping[str, str]]
) -> DescribeConfigsResponse:
    """The configs that new topics would have, given their own."""
    configs = {(TOPIC_RESOURCE, name): own for name, own in topics.items()}
    describer = Describer({**image.configs, **configs}, DescribeConfigsRequest(()), live, node_id)
    results = (
        DescribedConfigs(ConfigResource(*key), NO_ERROR, "", describer.resource(key)) for key in configs
    )
    return DescribeConfigsResponse(tuple(results), image.offset)


def _is_cluster(resource: ConfigResource) -> bool:
    return (resource.resource_type, resource.name) == CLUSTER_DEFAULT
