"""No planted secret is left in masked text, and what a maintainer needs is."""

import json

import pytest
from headrace.services.bundle.masking import KEY_MASK, MASK, Masker, secrets_of
from headrace.services.bundle.parts import KEEP_TAIL, Parts
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import FORMS, HARMLESS, SECRETS, TEXT, planted_in_keys


@pytest.mark.parametrize(("line", "secret"), FORMS)
def test_secret_is_masked_in_every_form(line: str, secret: str) -> None:
    """In a line of a log, too; masking twice changes nothing."""
    for text in (line, f"2026-11-29 ERROR x: {line} (retrying)"):
        masked = Masker().mask(text)
        assert secret not in masked
        assert MASK in masked or KEY_MASK in masked
        assert Masker().mask(masked) == masked


def test_every_sensitive_key_is_masked_in_every_form() -> None:
    """Of servers and clients: properties, JSON, YAML, reprs, variables, arguments, entries of name and value;
    in a text and in a JSON file."""
    planted = planted_in_keys("hunter2")
    masker, parts = Masker(), Parts(Masker(), 1 << 20, 1 << 20)
    assert [line for line, secret in planted if secret in masker.mask(line)] == []
    parts.add_json("a.json", {"lines": [line for line, _ in planted]})
    assert [secret for _, secret in planted if secret in parts.files["a.json"].decode()] == []


def test_lines_of_json_stay_json() -> None:
    """The structure below a secret name, and its secrets."""
    text = json.dumps({"credential": {"iterations": 4096, "password": "hunter2"}, "tokens": ["a"]})
    expected = {"credential": {"iterations": 4096, "password": MASK}, "tokens": ["a"]}
    assert json.loads(Masker().mask(text)) == expected


def test_end_of_a_log_that_begins_inside_a_private_key_is_masked() -> None:
    """The line with BEGIN is before the part that is kept."""
    text = "MIGHunter2wAgEAMBMGByqGSM49\nAgEGCCqGSM49hunter2\n-----END PRIVATE KEY-----\nINFO after it\n"
    assert Masker().mask(text) == f"{KEY_MASK}\nINFO after it\n"


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_are_unchanged(line: str) -> None:
    """Names of keys with the word token, intervals, modes, addresses."""
    assert Masker().mask(line) == line


def test_whole_text_has_no_secret_left() -> None:
    """Forms do not hide each other."""
    masked = Masker().mask(TEXT)
    assert [secret for secret in SECRETS if secret in masked] == []


def test_known_values_are_masked_wherever_they_occur() -> None:
    """A secret of a file in a place whose form says nothing; the longer of two first."""
    known = {"short", *secrets_of("ssl.key.password=tiger-one-and-more\n"), *secrets_of("tiger-one\n")}
    masked = Masker(known).mask("mounted as /x/tiger-one-and-more/y and tiger-one; short stays")
    assert masked == f"mounted as /x/{MASK}/y and {MASK}; short stays"


def test_values_of_harmless_keys_are_no_secrets() -> None:
    """They would be replaced in every other file."""
    text = "delegation.token.max.lifetime.ms=604800000\nRAY_AUTH_MODE=token\nacks=all-all\n"
    assert secrets_of(text) == set()


def test_values_are_masked_by_key_and_inside_of_texts() -> None:
    """Escapes of JSON hide no secret; entries of configs have the key as a value."""
    parts = Parts(Masker(), 1 << 20, 1 << 20)
    entry = {"name": "ssl.keystore.key", "value": "two words"}
    lines = [line for line, _ in FORMS]
    parts.add_json("a.json", {"lines": lines, "text": TEXT, "token": "a b c", "entries": [entry]})
    text = parts.files["a.json"].decode()
    assert [secret for secret in (*SECRETS, "a b c", "two words") if secret in text] == []
    assert json.loads(text)["entries"][0]["name"] == "ssl.keystore.key"


@given(st.text(max_size=300))
def test_any_text_can_be_masked(text: str) -> None:
    """Hostile logs neither fail nor hang; masking is idempotent."""
    once = Masker().mask(text)
    assert Masker().mask(once) == once


def test_files_are_cut_to_the_budget_and_listed() -> None:
    """The tail of a log, the head of others; what has no place is listed as missing."""
    parts = Parts(Masker(), max_bytes=100, max_file_bytes=60)
    parts.add_text("a.txt", "x" * 50)
    parts.add_text("log", "old " * 30 + "new", KEEP_TAIL)
    parts.add_text("late", "y" * 10)
    assert parts.files["log"].endswith(b"new")
    assert sum(map(len, parts.files.values())) == 100
    assert "late" not in parts.files
    found = json.loads(parts.manifest({"host": "h"}))
    assert [each["path"] for each in found["files"]] == ["a.txt", "log"]
    assert [each["what"] for each in found["missing"]] == ["log", "late"]
