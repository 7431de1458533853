"""Where a client first knocks."""

from collections.abc import Iterator

import pytest
from headrace.clients import bootstrap
from headrace.clients.cluster.network import Address
from headrace.protocol.errors import ConfigError, NoClusterError


@pytest.fixture(autouse=True)
def no_other_resolvers() -> Iterator[None]:
    """Only what a test registers."""
    kept = dict(bootstrap._resolvers)
    bootstrap._resolvers.clear()
    yield
    bootstrap._resolvers.clear()
    bootstrap._resolvers.update(kept)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", (Address("a", 1),)),
        ("a", (Address("a", 9092),)),
        ("a:1, b:2 ,", (Address("a", 1), Address("b", 2))),
        ("[::1]:9", (Address("::1", 9),)),
        ("[::1]", (Address("::1", 9092),)),
    ],
)
def test_addresses(text: str, expected: tuple[Address, ...]) -> None:
    """Names, ports, lists and IPv6."""
    assert bootstrap.parse_addresses(text) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", ":1", "a:", "a:x", "a:0", "a:65536", "::1", "[::1", "[::1]x", "[::1]:"]
)
def test_bad_addresses_are_refused(text: str) -> None:
    """Each kind of damage, found before anything is connected."""
    with pytest.raises(ConfigError):
        bootstrap.parse_addresses(text)


def test_the_argument_wins_over_the_environment() -> None:
    """And nothing given is None, so that resolvers are asked."""
    environment = {"HEADRACE_BOOTSTRAP": "env:1"}
    assert bootstrap.explicit_bootstrap("arg:1", environment) == "arg:1"
    assert bootstrap.explicit_bootstrap(["a:1", "b:2"], environment) == "a:1,b:2"
    assert bootstrap.explicit_bootstrap(None, environment) == "env:1"
    assert bootstrap.explicit_bootstrap(None, {}) is None


def test_resolvers_are_asked_in_turn() -> None:
    """The first finds nothing, the second does, the third is not asked."""
    asked: list[str] = []

    def named(name: str, answer: str | None) -> None:
        bootstrap.register_resolver(name, lambda: (asked.append(name), answer)[1])

    named("first", None)
    named("second", "found:5")
    named("third", "other:6")
    assert bootstrap.resolve_bootstrap(None) == (Address("found", 5),)
    assert asked == ["first", "second"]
    bootstrap.unregister_resolver("second")
    assert bootstrap.resolve_bootstrap(None) == (Address("other", 6),)


def test_a_resolver_that_refuses_leaves_the_others_to_be_asked() -> None:
    """Its error is raised when none of them finds a cluster."""

    def refuse() -> str:
        raise NoClusterError("no cluster 'default' is up here")

    bootstrap.register_resolver("first", refuse)
    bootstrap.register_resolver("second", lambda: "found:5")
    assert bootstrap.resolve_bootstrap(None) == (Address("found", 5),)
    bootstrap.register_resolver("second", lambda: None)
    with pytest.raises(NoClusterError, match="'default'"):
        bootstrap.resolve_bootstrap(None)


def test_no_cluster_at_all_is_a_clear_error() -> None:
    """It names the argument, the variable and who was asked."""
    bootstrap.register_resolver("ray", lambda: None)
    with pytest.raises(ConfigError, match=r"bootstrap='host:port'.*HEADRACE_BOOTSTRAP.*searched: ray"):
        bootstrap.resolve_bootstrap(None)


def test_addresses_print_as_they_are_written() -> None:
    """IPv6 in brackets."""
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]
