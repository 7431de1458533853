"""References of config values to variables and files."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from headrace.protocol.errors import ConfigError
from headrace.runtime.config_references import has_reference, resolve_from
from headrace.runtime.config_references_io import MAX_FILE_BYTES, resolve_references

PROPERTIES = r"""
# a comment
! another
user = alice
password: s3=cr:et
spaced value with blanks
joined = one\
    two
p\u0061th\ name = C:\\keys
empty =
"""


class Memory:
    """Fulfils Source."""

    def variable(self, name: str) -> str:
        if name != "PASSWORD":
            raise ConfigError("there is no such environment variable")
        return "s3cret"

    def real_path(self, path: str) -> PurePath:
        return PurePath(path)

    def text(self, path: PurePath) -> str:
        files = {"/etc/secrets.properties": PROPERTIES, "/etc/keys/server": "-----BEGIN"}
        if str(path) not in files:
            raise ConfigError("No such file or directory")
        return files[str(path)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:PASSWORD}", "s3cret"),
        ("${env::PASSWORD}", "s3cret"),
        ("user ${file:/etc/secrets.properties:user} with ${env:PASSWORD}", "user alice with s3cret"),
        ("${file:/etc/secrets.properties:password}", "s3=cr:et"),
        ("${file:/etc/secrets.properties:spaced}", "value with blanks"),
        ("${file:/etc/secrets.properties:joined}", "onetwo"),
        ("${file:/etc/secrets.properties:path name}", r"C:\keys"),
        ("${file:/etc/secrets.properties:empty}", ""),
        ("${dir:/etc/keys:server}", "-----BEGIN"),
        ("${vault:a:b}", "${vault:a:b}"),
        ("$PASSWORD ${PASSWORD}", "$PASSWORD ${PASSWORD}"),
    ],
)
def test_references_are_replaced(text: str, value: str) -> None:
    """Those of other providers stay."""
    assert resolve_from(Memory(), {"key": text, "number": 3}) == {"key": value, "number": 3}
    assert has_reference(text) is (text != value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("${env:ABSENT}", "no such environment variable"),
        ("${file:/etc/absent:user}", "No such file"),
        ("${file:/etc/secrets.properties:absent}", "no key 'absent'"),
        ("${file:user}", "it has no path"),
        ("${dir:/etc/keys:../secrets.properties}", "not the name of a file"),
    ],
)
def test_absent_value_is_an_error_with_its_reference(text: str, fault: str) -> None:
    """Not an empty or unresolved password."""
    with pytest.raises(ConfigError, match=fault) as caught:
        resolve_from(Memory(), {"ssl.key.password": text})
    assert str(caught.value).startswith(f"ssl.key.password: {text} cannot be resolved")


def test_parameters_restrict_readable_variables_and_files() -> None:
    """The keys are not part of the result."""
    file, variable = "${file:/etc/secrets.properties:user}", "${env:PASSWORD}"
    bounds = {
        "config.providers.env.param.allowlist.pattern": "PASS.*",
        "config.providers.file.param.allowed.paths": "/etc, /run",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    assert resolve_from(Memory(), {**bounds, "a": file, "b": variable}) == {"a": "alice", "b": "s3cret"}
    with pytest.raises(ConfigError, match=r"allowed\.paths"):
        resolve_from(Memory(), {"config_providers_file_param_allowed_paths": "/run", "a": file})
    with pytest.raises(ConfigError, match=r"allowlist\.pattern"):
        resolve_from(Memory(), {"config.providers.env.param.allowlist.pattern": "PASS", "a": variable})
    assert resolve_from(Memory(), {"config.providers": "file", "a": variable}) == {"a": variable}


@pytest.mark.parametrize(
    "keys",
    [
        {"config.providers": "vault"},
        {"config.providers.vault.class": "x"},
        {"config.providers.env.param.allowlist.pattern": "("},
    ],
)
def test_wrong_provider_keys_are_refused(keys: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"config\.providers"):
        resolve_from(Memory(), keys)


def test_files_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link out of the allowed folder is not followed, a large file is not read."""
    monkeypatch.setenv("SECRET_OF_A_TEST", "from the environment")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "key").write_text("secret")
    (inside / "link").symlink_to(outside / "key")
    (inside / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (inside / "bytes").write_bytes(b"\xff")
    allowed = {"config.providers.dir.param.allowed.paths": str(inside)}
    assert resolve_references({"a": "${env:SECRET_OF_A_TEST}"}) == {"a": "from the environment"}
    assert resolve_references({"a": f"${{dir:{inside}:link}}"}) == {"a": "secret"}
    for name, fault in [
        ("link", "allowed.paths"),
        ("large", "bytes"),
        ("bytes", "UTF-8"),
        ("none", "No such"),
    ]:
        with pytest.raises(ConfigError, match=fault):
            resolve_references({**allowed, "a": f"${{dir:{inside}:{name}}}"})
