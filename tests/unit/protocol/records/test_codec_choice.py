"""The choice of the codec where the compiled one is not built."""

import logging
import sys

import pytest
from headrace.protocol.records.batch import PythonCodec
from headrace.protocol.records.codec import codec_name, pick_codec


def test_without_a_build_the_python_codec_runs_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A choice of the compiled one is an error then; the choice of the Python one logs nothing."""
    monkeypatch.setitem(sys.modules, "headrace.protocol.records._batch", None)
    with caplog.at_level(logging.WARNING):
        assert isinstance(pick_codec("python"), PythonCodec)
        assert caplog.messages == []
        assert isinstance(pick_codec(None), PythonCodec)
    (message,) = caplog.messages
    assert "is not built" in message
    with pytest.raises(ImportError, match="is not built"):
        pick_codec("compiled")


def test_codec_of_this_process_is_named() -> None:
    """`headrace version` shows it."""
    assert codec_name() == "compiled"
