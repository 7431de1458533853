"""`ssl.cipher.suites` under OpenSSL's names."""

import ssl

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.kafka_listener.tls_ciphers import TLS13_SUITES, cipher_list, has_tls13

NAMES = {
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
}


@pytest.mark.parametrize(("suite", "name"), NAMES.items())
def test_iana_names_map_to_openssl_names(suite: str, name: str) -> None:
    assert cipher_list((*TLS13_SUITES, suite)) == name
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(name)
    assert name in {cipher["name"] for cipher in context.get_ciphers()}


def test_tls_13_suites_are_all_or_none() -> None:
    assert has_tls13(TLS13_SUITES)
    assert not has_tls13(tuple(NAMES))
    with pytest.raises(ConfigError, match="all of TLS"):
        has_tls13(TLS13_SUITES[:2])


def test_unknown_suites_are_refused() -> None:
    with pytest.raises(ConfigError, match="NULL"):
        cipher_list(["TLS_NULL_WITH_NULL_NULL"])
