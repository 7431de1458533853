"""The codec of a process."""

import os
import subprocess
import sys

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.records.codec import active_codec, pick_codec


def test_the_compiled_codec_is_the_default() -> None:
    """Without HEADRACE_CODEC."""
    assert pick_codec(None).name == pick_codec("compiled").name == "compiled"
    assert pick_codec("python").name == "python"
    assert active_codec() is active_codec()


def test_unknown_names_are_refused() -> None:
    """A typo must not choose a codec."""
    with pytest.raises(ConfigError, match="HEADRACE_CODEC must be 'compiled' or 'python', not 'pyhton'"):
        pick_codec("pyhton")


@pytest.mark.parametrize(
    ("value", "name"), [("python", "python"), ("compiled", "compiled"), ("", "compiled")]
)
def test_the_environment_chooses(value: str, name: str) -> None:
    """HEADRACE_CODEC is read once per process."""
    code = "from headrace.protocol.records.codec import active_codec; print(active_codec().name)"
    environment = {**os.environ, "HEADRACE_CODEC": value}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == name


def test_a_missing_build_names_the_make_target() -> None:
    """Without the compiled module the Python one runs, with a warning that says how to build it; required, it
    is an error."""
    code = """
import logging, sys
logging.basicConfig()
sys.modules["headrace.protocol.records._batch"] = None
from headrace.protocol.records.codec import pick_codec
assert pick_codec("python").name == "python"
try:
    pick_codec("compiled")
except ImportError as error:
    print(error)
assert pick_codec(None).name == "python"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "make codec" in done.stdout
    assert "make codec" in done.stderr
    assert "HEADRACE_CODEC=python" in done.stderr
