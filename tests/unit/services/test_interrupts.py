"""Signals end a command at any place."""

import os
import signal
import sys
import threading

import pytest
from headrace.services.cli.interrupts import interrupts


def meet(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    threading.Event().wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_raise_keyboard_interrupt(number: signal.Signals) -> None:
    """All three alike; the former handlers are restored."""
    found = signal.signal(number, signal.default_int_handler)  # the tests may run where it is ignored: nohup
    try:
        with pytest.raises(KeyboardInterrupt), interrupts():
            meet(number)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, found)


def test_ignored_signals_stay_ignored() -> None:
    """Under nohup a closed terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


class Kills:
    """Sends the signal inside its destructor, where Python drops exceptions."""

    def __del__(self) -> None:
        meet(signal.SIGTERM)


def drop_it() -> None:
    doomed = Kills()
    del doomed
    threading.Event().wait(10)


def test_signal_inside_a_destructor_is_raised_later() -> None:
    """Python drops the exception there; it is raised again outside."""
    with pytest.raises(KeyboardInterrupt), interrupts():
        drop_it()


def test_other_unraisable_exceptions_reach_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a destructor is still reported."""
    response: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda news: response.append(news.exc_type))

    class Broken:
        def __del__(self) -> None:
            raise ZeroDivisionError

    with interrupts():
        doomed = Broken()
        del doomed
    assert response == [ZeroDivisionError]
