"""The clients' config schemas: sources of values, their precedence, and errors."""

import copy
import pickle
import re
from dataclasses import replace
from typing import Any

import headrace
import pytest
from headrace import NewTopic
from headrace.aio import AsyncAdmin, AsyncConsumer, AsyncProducer
from headrace.clients import foreign_names
from headrace.clients.config import (
    AdminConfig,
    ClientConfigs,
    ConnectionConfig,
    ConsumerConfig,
    ProducerConfig,
    dotted,
    given,
    resolve,
)
from headrace.protocol.errors import ConfigError


def test_precedence_of_argument_mapping_environment_and_default() -> None:
    """linger.ms is given in all four places, then in one place less each time."""
    environment = {"HEADRACE_LINGER_MS": "7"}
    both = given({"linger.ms": 6}, {"linger_ms": 5}, ClientConfigs)
    assert resolve(ProducerConfig, both, environment).linger_ms == 5
    mapping = given({"linger.ms": 6}, {}, ClientConfigs)
    assert resolve(ProducerConfig, mapping, environment).linger_ms == 6
    assert resolve(ProducerConfig, {}, environment).linger_ms == 7
    assert resolve(ProducerConfig, {}, {}).linger_ms == 5


@pytest.mark.parametrize(
    "spelling",
    ["max.in.flight.requests.per.connection", "max_in_flight_requests_per_connection", "max_in_flight"],
)
def test_every_spelling_of_a_key_is_known(spelling: str) -> None:
    """Dotted like Kafka, underscored, and the short name of the argument."""
    assert dotted(spelling, (ProducerConfig,)) == "max.in.flight.requests.per.connection"


def test_unknown_key_error_suggests_the_nearest_name() -> None:
    """A typo of an argument and one of a dotted key."""
    with pytest.raises(ConfigError, match=r"did you mean 'linger\.ms'"):
        given({"linger.m": 1}, {}, (ProducerConfig,))
    with pytest.raises(ConfigError, match=r"linger_msec.*did you mean 'linger_ms'"):
        given(None, {"linger_msec": 1}, (ProducerConfig,))
    with pytest.raises(ConfigError, match=r"did you mean 'fetch\.min\.bytes'"):
        given({"fetch.min.byte": 1}, {}, (ConsumerConfig,))


def test_unsupported_keys_of_kafka_are_errors() -> None:
    """To ignore them could lose data."""
    for key in ("security", "ssl.keystore.location"):
        with pytest.raises(ConfigError, match="unknown config key"):
            given(None, {key: "x"}, ClientConfigs)


@pytest.mark.parametrize(
    ("schema", "key", "default"),
    [
        (ProducerConfig, "acks", "all"),
        (ProducerConfig, "linger.ms", 5),
        (ProducerConfig, "buffer.memory", 32 * 1024 * 1024),
        (ProducerConfig, "max.request.size", 1024 * 1024),
        (ProducerConfig, "delivery.timeout.ms", 120_000),
        (ProducerConfig, "max.block.ms", 60_000),
        (ProducerConfig, "compression.type", "none"),
        (ProducerConfig, "retry.backoff.max.ms", 1000),
        (ConsumerConfig, "auto.offset.reset", "latest"),
        (ConsumerConfig, "fetch.max.bytes", 50 * 1024 * 1024),
        (ConsumerConfig, "max.partition.fetch.bytes", 1024 * 1024),
        (ConsumerConfig, "max.poll.records", 500),
        (ConsumerConfig, "fetch.max.wait.ms", 500),
        (ConnectionConfig, "metadata.max.age.ms", 300_000),
        (AdminConfig, "default.api.timeout.ms", 60_000),
    ],
)
def test_defaults_are_kafkas(schema: type, key: str, default: object) -> None:
    """A Kafka user expects these."""
    assert resolve(schema, {}, {}).to_mapping()[key] == default


def test_acks_is_taken_as_number_or_text() -> None:
    """`acks=1`, `acks="1"` and `acks="all"`; nothing else."""
    numbers = {acks: resolve(ProducerConfig, given(None, {"acks": acks}, ClientConfigs), {}).acks_number
               for acks in (0, 1, -1, "all", "-1")}  # fmt: skip
    assert numbers == {0: 0, 1: 1, -1: -1, "all": -1, "-1": -1}
    with pytest.raises(ConfigError, match="acks must be one of"):
        resolve(ProducerConfig, given(None, {"acks": 2}, ClientConfigs), {})


def test_compression_none_is_no_compression() -> None:
    """`compression_type=None` is what Python users write for "none"."""
    values = given(None, {"compression_type": None}, ClientConfigs)
    assert resolve(ProducerConfig, values, {}).compression_type == "none"


@pytest.mark.parametrize(
    ("codec", "level"), [("none", None), ("gzip", None), ("snappy", None), ("lz4", 9), ("zstd", 3)]
)
def test_each_codec_has_its_own_level(codec: str, level: int | None) -> None:
    """Kafka's defaults per codec; gzip's -1 leaves it to zlib."""
    config = ProducerConfig.of({"compression.type": codec})
    assert config.compression_level == level
    assert ProducerConfig.of({"compression.type": "gzip", "compression.gzip.level": 2}).compression_level == 2


def test_delivery_timeout_covers_linger_and_request_timeout() -> None:
    """Kafka's rule: delivery.timeout.ms >= linger.ms + request.timeout.ms."""
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms \(100\).*30005"):
        ProducerConfig.of({"delivery.timeout.ms": 100})


@pytest.mark.parametrize("policy", ["earliest", "latest", "none", "by_duration:PT1H"])
def test_reset_policies_are_kafkas(policy: str) -> None:
    """The four forms, and an error for another."""
    assert ConsumerConfig.of({"auto.offset.reset": policy}).auto_offset_reset == policy


@pytest.mark.parametrize("policy", ["newest", "by_duration:1h", "by_duration:", ""])
def test_invalid_reset_policies_are_errors(policy: str) -> None:
    """A typo must not mean `latest`."""
    with pytest.raises(ConfigError):
        ConsumerConfig.of({"auto.offset.reset": policy})


@pytest.mark.parametrize(
    ("given", "is_idempotent"),
    [
        ({}, True),
        ({"acks": "1"}, False),
        ({"acks": "0"}, False),
        ({"acks": "-1"}, True),
        ({"retries": 0}, False),
        ({"acks": "1", "max_in_flight": 50}, False),
        ({"enable_idempotence": False, "max_in_flight": 50}, False),
        ({"enable_idempotence": "true"}, True),
        ({"transactional_id": "t"}, True),
        ({"transactional_id": ""}, True),
    ],
)
def test_idempotence_is_the_default_unless_acks_or_retries_contradict(
    given: dict[str, Any], is_idempotent: bool
) -> None:
    """Without a message, as in Kafka."""
    assert ProducerConfig.of(given).is_idempotent is is_idempotent


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"enable_idempotence": True, "acks": "1"}, "enable.idempotence needs acks=all"),
        ({"enable_idempotence": True, "retries": 0}, "enable.idempotence needs retries"),
        ({"enable_idempotence": True, "max_in_flight": 6}, "at most 5 with enable.idempotence"),
        ({"max_in_flight": 6}, "at most 5 with enable.idempotence"),
        ({"transactional_id": "t", "enable_idempotence": False}, "needs enable.idempotence=true"),
        ({"transactional_id": "t", "acks": "0"}, "transactional.id needs acks=all"),
        ({"enable_idempotence": "perhaps"}, "must be true or false"),
        ({"transactional_id": 7}, "transactional.id must be text"),
    ],
)
def test_configs_that_contradict_explicit_idempotence_are_errors(given: dict[str, Any], text: str) -> None:
    """An explicit enable.idempotence is not switched off."""
    with pytest.raises(ConfigError, match=text):
        ProducerConfig.of(given)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("bootstrap_servers", "use `bootstrap`"),
        ("bootstrap.servers", "use `bootstrap`"),
        ("value_serializer", "use `value=`"),
        ("key.deserializer", "use `key=`"),
        ("ssl.ca.location", "CURVE keys instead of certificates"),
        ("sasl.mechanisms", "use `sasl_mechanism`"),
        ("sasl_plain_username", "use `username`"),
        ("sasl.kerberos.kinit.cmd", "sasl_kerberos_keytab"),
        ("oauth_cb", "use `sasl_oauthbearer_token`"),
        ("queue.buffering.max.ms", "use `linger_ms`"),
        ("consumer_timeout_ms", "use `iter_timeout`"),
        ("stats_cb", "metrics()"),
        ("num_partitions", "use `partitions` of NewTopic"),
        ("topic", "pass topics as positional arguments"),
        ("auto_offset_resett", "did you mean 'auto_offset_reset'"),
    ],
)
def test_argument_names_of_other_clients_are_errors_with_our_names(name: str, advice: str) -> None:
    """By keyword and in the config mapping, of every client, before any connection."""
    with pytest.raises(ConfigError, match=re.escape(advice)):
        dotted(name, ClientConfigs, is_keyword="_" in name)
    if advice.startswith("did"):
        return
    for client in (headrace.Producer, headrace.Consumer, headrace.Admin, headrace.connect):
        make: Any = client
        with pytest.raises(ConfigError, match=re.escape(advice)):
            make(bootstrap="localhost:1", **{name: "x"})
        with pytest.raises(ConfigError, match=re.escape(advice)):
            make(bootstrap="localhost:1", config={name: "x"})


def test_advice_names_existing_keys_and_arguments() -> None:
    """Each `key` in the advice belongs to some client."""
    arguments = {
        "bootstrap",
        "iter_timeout",
        "listener",
        "partitions",
        "assignments",
        "configs",
        "send",
    }
    for name, advice in {**foreign_names._ADVICE, **foreign_names._SECURITY}.items():
        for word in re.findall(r"`([a-z_]+)`", advice):
            if word not in arguments and word not in ("position", "end_offsets", "add_done_callback"):
                assert dotted(word, ClientConfigs), name


def test_key_of_another_client_is_named_so() -> None:
    """An error without it would look like a misspelling."""
    with pytest.raises(
        ConfigError, match=r"unknown config key 'enable\.auto\.commit'; only consumers have it"
    ):
        headrace.Producer(bootstrap="localhost:1", config={"enable.auto.commit": True})
    with pytest.raises(ConfigError, match="unknown config key 'linger_ms'; only producers have it"):
        headrace.Consumer("t", bootstrap="localhost:1", linger_ms=5)


def test_dict_as_first_argument_is_an_error_with_the_right_call() -> None:
    """confluent-kafka's clients accept one; here it would be read as a list of addresses."""
    theirs: Any = {"bootstrap.servers": "a:1", "linger.ms": 5}
    ours = r"first argument of a client; pass bootstrap='a:1', config=\{'linger.ms': 5\}"
    makers: list[Any] = [headrace.Producer, headrace.Consumer, headrace.Admin, headrace.connect]
    for make in [*makers, AsyncProducer, AsyncConsumer, AsyncAdmin, headrace.aio.connect]:
        with pytest.raises(TypeError, match=ours):
            make(theirs)
    with pytest.raises(TypeError) as secret:
        headrace.Producer({"bootstrap.servers": "a:1", "sasl.password": "hidden"})  # type: ignore[call-overload]
    assert "hidden" not in str(secret.value)


def test_new_topic_rejects_argument_names_of_other_clients() -> None:
    """kafka-python's and confluent-kafka's; a typo is an ordinary TypeError."""
    new_topic: Any = NewTopic
    for name, ours in (("num_partitions", "partitions"), ("topic_configs", "configs"), ("topic", "name")):
        with pytest.raises(TypeError, match=f"use `{ours}`( of NewTopic)?$"):
            new_topic(**{"name": "t", name: 3})
    with pytest.raises(TypeError, match="unexpected keyword"):
        new_topic("t", partition=3)
    topic = NewTopic("t", 3, configs={"a": 1})
    assert pickle.loads(pickle.dumps(topic)) == copy.copy(topic) == replace(topic)
