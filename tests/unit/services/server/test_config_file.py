"""Config files of server processes."""

import pytest
from headrace.controller.config import ControllerConfig
from headrace.protocol.errors import ConfigError
from headrace.services.server.config_file import CONTROLLER, NODE, directory_of, server_file
from headrace.storage_node.configs.node_config import NodeConfig

KAFKAS_NODE = """
# a broker
process.roles=broker
node.id=3
log.dirs=/data/a,/data/b
controller.quorum.bootstrap.servers=c1:9090,c2:9090
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://node-3:9092
! another comment
num.recovery.threads.per.data.dir = 4
"""
KAFKAS_CONTROLLER = """
process.roles=controller
node.id=100
log.dirs=/data/metadata
listener.host=0.0.0.0
advertised.host=c1
listener.port=9090
controller.quorum.bootstrap.servers=c1:9090,c2:9090,c3:9090
"""


def test_node_file_of_kafka_is_read() -> None:
    """Keys of Kafka, comments, spaces; the addresses of controllers are not a key of the node."""
    found = server_file(NODE, KAFKAS_NODE, {"broker.rack": "r1"})
    assert isinstance(found.config, NodeConfig)
    assert (found.config.log_dirs, found.config.broker_rack) == (("/data/a", "/data/b"), "r1")
    assert found.config.num_recovery_threads_per_data_dir == 4
    assert found.controllers == (("c1", 9090), ("c2", 9090))
    assert (found.name, found.directory) == ("node-3", "/data/a")


def test_controller_file_of_kafka_is_read() -> None:
    """node.id and log.dirs are those of the controller; its own address is not one of the others."""
    found = server_file(CONTROLLER, KAFKAS_CONTROLLER, {})
    assert isinstance(found.config, ControllerConfig)
    assert (found.config.controller_id, found.config.metadata_log_dir) == (100, "/data/metadata")
    assert found.config.to_mapping()["controller.quorum.auto.join.enable"]
    assert found.config.bootstrap_endpoints == found.controllers == (("c2", 9090), ("c3", 9090))
    assert found.name == "controller-100"


def test_single_controller_begins_a_quorum_of_its_own() -> None:
    """Only its own address: without others it needs no format."""
    text = KAFKAS_CONTROLLER.replace(",c2:9090,c3:9090", "")
    assert server_file(CONTROLLER, text, {}).controllers == ()


def test_references_are_resolved_before_values_are_checked() -> None:
    """A secret of the environment, as `${env:..}`."""
    text = KAFKAS_NODE + "broker.rack=${env:RACK}\n"
    found = server_file(
        NODE, text, {}, lambda values: {k: "r7" if v == "${env:RACK}" else v for k, v in values.items()}
    )
    assert isinstance(found.config, NodeConfig)
    assert found.config.broker_rack == "r7"


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        (NODE, KAFKAS_NODE + "nonsense\n", "line 11 is not key=value"),
        (NODE, KAFKAS_NODE + "num.partition=3\n", "num.partition"),
        (NODE, KAFKAS_NODE.replace("controller.quorum", "#"), "must name the controllers"),
        (NODE, KAFKAS_NODE.replace("c1:9090", "c1"), "not host:port"),
        (NODE, KAFKAS_NODE.replace("log.dirs", "#"), "log.dirs must name"),
        (NODE, KAFKAS_CONTROLLER, "process.roles=controller: `headrace server node` runs the role broker"),
        (CONTROLLER, KAFKAS_NODE, "process.roles=broker"),
        (NODE, KAFKAS_NODE.replace("=broker", "=broker,controller"), "one process for each role"),
        (NODE, KAFKAS_NODE + "metadata.log.dir=/m\n", "metadata.log.dir is a key of a controller"),
        (CONTROLLER, KAFKAS_CONTROLLER + "advertised.listeners=P://h:1\n", "is a key of a broker"),
        (CONTROLLER, KAFKAS_CONTROLLER.replace("advertised.host", "#"), "set advertised.host"),
    ],
)
def test_mistakes_are_reported_with_the_key(role: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        server_file(role, text, {})


def test_directory_is_known_without_the_keys_of_a_start() -> None:
    """`server status` in a container: node.id and advertised.host are arguments of the server."""
    assert directory_of(KAFKAS_NODE, {}) == "/data/a"
    assert directory_of(KAFKAS_CONTROLLER.replace("advertised.host", "#"), {}) == "/data/metadata"
    assert directory_of("controller.id=1\nmetadata.log.dir=/m\nlog.dirs=/l\n", {}) == "/m"
    assert directory_of("", {"log.dirs": "/x, /y"}) == "/x"
    for text in ("", "nonsense\n"):
        with pytest.raises(ConfigError):
            directory_of(text, {})
