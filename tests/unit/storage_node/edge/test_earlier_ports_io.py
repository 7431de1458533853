"""The ports of a node whose log dirs are empty."""

import pytest
from fake_controller import FakeController
from fake_files import FakeFiles
from headrace.protocol.metadata.records import RegisterBrokerRecord
from headrace.protocol.model import ListenerEndpoint
from headrace.runtime.listener_address import store_port, stored_port
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.earlier_ports_io import adopt_registered_ports
from node_rig import run

LISTENERS = (ListenerEndpoint("PLAINTEXT", "127.0.0.1", 2001), ListenerEndpoint("B", "public", 2002))


def ports_of(node_id: int = 1, stored: int = 0, **config: object) -> list[int]:
    """The stored ports of the node's own listener and of two others."""
    pairs = {"listeners": "PLAINTEXT://127.0.0.1:0,B://127.0.0.1:0", "log.dirs": "/d", **config}
    config_ = NodeConfig.of({name.replace("_", "."): value for name, value in pairs.items()})
    files = FakeFiles()
    files.mkdir("/d")
    if stored:
        store_port(files, "/d", stored)

    async def scenario() -> None:
        controller = FakeController()
        controller.append(
            RegisterBrokerRecord(1, b"i" * 16, "127.0.0.1", 2000, None, (b"d" * 16,), 1, listeners=LISTENERS)
        )
        controller.start()
        try:
            await adopt_registered_ports(config_, files, node_id, controller.locate)
        finally:
            controller.close()

    run(scenario)
    names = ("listener.port", "listener.PLAINTEXT.port", "listener.B.port")
    return [stored_port(files, "/d", name) for name in names]


@pytest.mark.parametrize(
    ("config", "ports"),
    [
        ({}, [2000, 2001, 2002]),
        ({"node_id": 2}, [0, 0, 0]),
        ({"node_id": -1}, [0, 0, 0]),
        ({"stored": 1999}, [1999, 0, 0]),
        ({"listener_port": 1}, [0, 2001, 2002]),
        ({"advertised_port": 1}, [0, 2001, 2002]),
        ({"listeners": "PLAINTEXT://127.0.0.1:5"}, [2000, 0, 0]),
        ({"advertised_listeners": "B://public:7"}, [2000, 2001, 0]),
    ],
    ids=str,
)
def test_registered_ports_are_written_into_an_empty_log_dir(
    config: dict[str, object], ports: list[int]
) -> None:
    """Only those that neither the log dir nor the configuration has."""
    assert ports_of(**config) == ports  # type: ignore[arg-type]
