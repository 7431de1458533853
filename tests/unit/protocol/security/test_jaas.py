"""`sasl.jaas.config` in Kafka's syntax."""

import pytest
from headrace.protocol.security.jaas import MAX_CHARS, JaasError, parse_jaas, single_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_modules_and_their_options() -> None:
    text = f"""{PLAIN} required
        username="admin" password="a\\"b;=\\\\" user_alice='it"s' /* a comment */ debug=true;
        com.example.Other OPTIONAL;"""
    first, second = parse_jaas(text)
    assert first[:2] == (PLAIN, "required")
    assert first.options == {
        "username": "admin",
        "password": 'a"b;=\\',
        "user_alice": 'it"s',
        "debug": "true",
    }
    assert second == ("com.example.Other", "optional", {})
    assert "admin" not in repr(first)


def test_escapes_are_javas() -> None:
    (module,) = parse_jaas(r'm required a="\t\101\x";')
    assert module.options["a"] == "\tAx"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "m perhaps;",
        "m required",
        'm required a="secret"',
        "m required a;",
        "m required secret=secret secret",
        'm required a="secret;',
        'm required a="secret" a="secret";',
        "m required =secret;",
        "m required secret=;",
        "m required secret=%;",
        "x" * (MAX_CHARS + 1),
    ],
)
def test_invalid_text_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)


def test_a_mechanism_has_one_module_of_its_own() -> None:
    assert single_module(f"{PLAIN} required;", "PlainLoginModule").name == PLAIN
    with pytest.raises(JaasError, match="one login module"):
        single_module(f"{PLAIN} required;{PLAIN} required;", "PlainLoginModule")
    with pytest.raises(JaasError, match="ScramLoginModule"):
        single_module(f"{PLAIN} required;", "ScramLoginModule")
