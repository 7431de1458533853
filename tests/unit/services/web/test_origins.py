"""Pages of other origins: Host, Origin and CORS."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.web.origins import (
    check_host,
    check_origin,
    cors_headers,
    host_name,
    preflight_headers,
)
from headrace.services.web.problems import Problem
from headrace.services.web.settings import WebConfig

OWN = "http://127.0.0.1:8082"
APP = "https://app.example.com"


@pytest.mark.parametrize("host", ["localhost:8082", "127.0.0.1", "[::1]:8082", "10.0.0.1:80", "proxy:8082"])
def test_accepted_host(host: str) -> None:
    """Addresses, localhost, and the names of allowed.hosts."""
    check_host(host, WebConfig(allowed_hosts=("proxy",)))


@pytest.mark.parametrize("host", ["evil.example:8082", "localhost.evil.example", "", None])
def test_rebound_host_is_refused_on_loopback(host: str | None) -> None:
    """DNS rebinding: the page's own name resolves to this machine. Other addresses accept every name."""
    with pytest.raises(Problem) as refused:
        check_host(host, WebConfig())
    assert refused.value.status == 421
    check_host(host, WebConfig(host="0.0.0.0"))
    check_host(host, WebConfig(allowed_hosts=("*",)))


def test_host_name_of_an_ipv6_address() -> None:
    """With and without a port."""
    assert [host_name(text) for text in ("[::1]:80", "[fe80::1]", "h", "h:1")] == ["::1", "fe80::1", "h", "h"]


@pytest.mark.parametrize(
    ("method", "origin", "site", "passes"),
    [
        ("POST", None, None, True),  # no browser
        ("POST", OWN, "same-origin", True),
        ("POST", None, "none", True),  # typed by the user
        ("POST", APP, "cross-site", True),
        ("POST", "https://evil.example", None, False),
        ("POST", "null", None, False),  # a sandboxed page
        ("DELETE", None, "cross-site", False),
        ("PUT", None, "same-site", False),
        ("GET", "https://evil.example", "cross-site", True),  # the browser keeps the response from the page
    ],
)
def test_origin_of_a_change(method: str, origin: str | None, site: str | None, passes: bool) -> None:
    """Only pages of this server and of allowed origins change something."""
    config = WebConfig(allow_origin=(APP,))
    if passes:
        check_origin(method, origin, site, OWN, config)
        return
    with pytest.raises(Problem) as refused:
        check_origin(method, origin, site, OWN, config)
    assert refused.value.status == 403


def test_cors_is_off_by_default() -> None:
    """No page of another origin may read a response."""
    assert cors_headers(APP, WebConfig()) == {}
    with pytest.raises(Problem):
        preflight_headers(APP, WebConfig())


def test_cors_of_an_allowed_origin() -> None:
    """The headers name the origin, and caches keep a response per origin."""
    config = WebConfig(allow_origin=(APP,))
    assert cors_headers(APP, config)["access-control-allow-origin"] == APP
    assert cors_headers("https://evil.example", config) == {"vary": "origin"}
    assert "DELETE" in preflight_headers(APP, config)["access-control-allow-methods"]
    assert cors_headers(APP, WebConfig(allow_origin=("*",)))["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("origin", ["app.example.com", "https://app.example.com/", "null"])
def test_malformed_origin_in_the_config(origin: str) -> None:
    """It would never match."""
    with pytest.raises(ConfigError, match=r"is not an origin like"):
        WebConfig(allow_origin=(origin,))
