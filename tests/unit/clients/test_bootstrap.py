"""The bootstrap addresses of a client."""

from collections.abc import Iterator

import pytest
from headrace.clients import bootstrap
from headrace.clients.cluster.network import Address
from headrace.protocol.errors import ConfigError, NoClusterError


@pytest.fixture(autouse=True)
def no_other_resolvers() -> Iterator[None]:
    """Only the resolvers of the test."""
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
def test_invalid_addresses_are_errors(text: str) -> None:
    """Before any connection."""
    with pytest.raises(ConfigError):
        bootstrap.parse_addresses(text)


def test_address_as_a_url_is_refused_with_the_form_that_is_expected() -> None:
    with pytest.raises(ConfigError, match="expected host:port, without http://"):
        bootstrap.parse_addresses("http://localhost:9092")


def test_argument_overrides_the_environment() -> None:
    """Without both the result is None, and resolvers are called."""
    environment = {"HEADRACE_BOOTSTRAP": "env:1"}
    assert bootstrap.explicit_bootstrap("arg:1", environment) == "arg:1"
    assert bootstrap.explicit_bootstrap(["a:1", "b:2"], environment) == "a:1,b:2"
    assert bootstrap.explicit_bootstrap(None, environment) == "env:1"
    assert bootstrap.explicit_bootstrap(None, {}) is None


def test_resolvers_are_called_in_turn() -> None:
    """The first finds nothing, the second does, the third is not called."""
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


def test_error_of_a_resolver_does_not_skip_the_others() -> None:
    """It is raised if none of them finds a cluster."""

    def refuse() -> str:
        raise NoClusterError("no cluster 'default' is up here")

    bootstrap.register_resolver("first", refuse)
    bootstrap.register_resolver("second", lambda: "found:5")
    assert bootstrap.resolve_bootstrap(None) == (Address("found", 5),)
    bootstrap.register_resolver("second", lambda: None)
    with pytest.raises(NoClusterError, match="'default'"):
        bootstrap.resolve_bootstrap(None)


def test_missing_bootstrap_is_an_error() -> None:
    """It names the argument, the variable and the resolvers."""
    bootstrap.register_resolver("ray", lambda: None)
    with pytest.raises(ConfigError, match=r"bootstrap='host:port'.*HEADRACE_BOOTSTRAP.*searched: ray"):
        bootstrap.resolve_bootstrap(None)


def test_addresses_as_text() -> None:
    """IPv6 in brackets."""
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]
