"""The service of a listener in the options of Krb5LoginModule."""

from __future__ import annotations

import pytest
from headrace.protocol.security.jaas import JaasError
from headrace.protocol.security.krb5_module import ServiceLogin, service_login

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
RIGHT = f'{MODULE} useKeyTab=true storeKey=true keyTab="/k" principal="kafka/h@R";'


def test_principal_and_keytab() -> None:
    """The service's name is that of the config, of the module, or of both."""
    assert service_login(RIGHT, "kafka") == ServiceLogin("kafka/h@R", "/k")
    own = RIGHT.replace(";", " serviceName=kafka;")
    assert service_login(own, "") == service_login(own, "kafka") == ServiceLogin("kafka/h@R", "/k")


@pytest.mark.parametrize(
    ("text", "service", "error"),
    [
        (RIGHT, "", "needs sasl.kerberos.service.name, or the option serviceName"),
        (RIGHT.replace(";", " serviceName=a;"), "b", "serviceName a, and sasl.kerberos.service.name is b"),
        (RIGHT, "other", "kafka/h@R is not one of the service other"),
        (RIGHT.replace("useKeyTab=true", "useTicketCache=true"), "kafka", "needs useKeyTab=true"),
        (RIGHT.replace('keyTab="/k"', ""), "kafka", "needs the option keyTab"),
        (RIGHT.replace('principal="kafka/h@R"', ""), "kafka", "needs the option principal"),
        (RIGHT.replace("kafka/h@R", "a/b/c@R"), "a", "one or two components"),
        (RIGHT.replace("Krb5LoginModule", "PlainLoginModule"), "kafka", "is Krb5LoginModule, not"),
    ],
)
def test_missing_or_contradicting_options_are_named(text: str, service: str, error: str) -> None:
    with pytest.raises(JaasError, match=error):
        service_login(text, service)
