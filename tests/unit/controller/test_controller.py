"""The controller core as a whole: dispatch, the first records, determinism, and its tick."""

import pytest
from controller_kit import Driver
from headrace.controller.config import ControllerConfig
from headrace.controller.controller import tick_interval_ms
from headrace.protocol.errors import ConfigError, UnsupportedVersionError
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.metadata.features import OWN_RANGES


def test_a_cluster_is_formatted_once(driver: Driver) -> None:
    """The second start finds the cluster id of the first."""
    assert driver.image.cluster_id == "cluster-1"
    assert driver.core.decide_format("another") == ()


def test_unserved_requests_are_refused() -> None:
    """A request that storage nodes serve reaches the controller."""
    with pytest.raises(UnsupportedVersionError, match="MetadataRequest"):
        Driver().ask(MetadataRequest())


def test_deciding_changes_no_hard_state(driver: Driver) -> None:
    """A decision that is not applied, because its append failed, leaves the image as it was."""
    before = driver.image
    driver.core.decide(_registration(), driver.now_ms)
    assert driver.image is before


def test_equal_seeds_give_equal_records() -> None:
    """Two cores with the same seed and requests."""
    histories = []
    for _ in range(2):
        driver = Driver(seed=7)
        driver.join(1, 2, 3)
        driver.create("t", num_partitions=5)
        histories.append(driver.records)
    assert histories[0] == histories[1]


def test_the_session_must_be_longer_than_the_heartbeat_interval() -> None:
    """Otherwise every node would be fenced between two heartbeats. The directory is required, too."""
    with pytest.raises(ConfigError, match="must be longer"):
        ControllerConfig.of({"metadata.log.dir": "/m", "broker.heartbeat.interval.ms": 1500})
    with pytest.raises(ConfigError, match=r"metadata\.log\.dir"):
        ControllerConfig.of()


def test_a_dead_leader_is_fenced_within_two_seconds_by_default() -> None:
    """One session, one tick, and time for the decision; four heartbeats may be lost before."""
    config = ControllerConfig.of({"metadata.log.dir": "/m"})
    assert config.broker_session_timeout_ms + tick_interval_ms(config) <= 1600
    assert config.broker_heartbeat_interval_ms * 5 <= config.broker_session_timeout_ms


def test_ticks_are_frequent() -> None:
    """Sessions are checked many times within one timeout."""
    config = ControllerConfig.of({"metadata.log.dir": "/m"})
    assert tick_interval_ms(config) * 10 <= config.broker_session_timeout_ms


def test_long_sessions_do_not_delay_long_polls() -> None:
    """A node closes its connection two seconds after its poll should have ended."""
    config = ControllerConfig.of({"metadata.log.dir": "/m", "broker.session.timeout.ms": 600_000})
    assert tick_interval_ms(config) <= 250


def _registration():
    from headrace.protocol.messages.control import BrokerRegistrationRequest

    return BrokerRegistrationRequest(1, "", b"i" * 16, "h", 1, features=OWN_RANGES)
