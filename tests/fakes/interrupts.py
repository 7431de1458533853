"""KeyboardInterrupt at each place where Python may raise it, one per run."""

import dis
import sys
from types import FrameType, TracebackType
from typing import Any, Self

# Source: CPython's ceval.c: signals are handled when a function begins or resumes, at the end of a loop turn,
# and after a call of a function that is not written in Python.
LOOKS = ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")


class InterruptAt:
    """Inside the block, raises KeyboardInterrupt at the `place`th place in files below `folder`.

    `is_over` is True when there were fewer places.
    """

    def __init__(self, place: int, folder: str) -> None:
        self._left, self._folder = place, folder
        self._last: tuple[FrameType, str] | None = None
        self.is_over = True

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        sys.settrace(self._before)
        self._last = None
        return kind is KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, _value: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._folder) or not self.is_over:
            return None
        frame.f_trace_opcodes = True
        if event != "opcode":
            return self._trace
        last, name = self._last, dis.opname[frame.f_code.co_code[frame.f_lasti]]
        self._last = (frame, name)
        # After a call of a Python function there is another frame, and signals are not handled; nor are they
        # after a call that failed: an exception raised by a trace function at the start of a handler would
        # leave the caught one behind, as the context of all later exceptions of this thread.
        is_failed = name == "PUSH_EXC_INFO"
        if last is not None and last[0] is frame and last[1].startswith(LOOKS) and not is_failed:
            self._left -= 1
            if self._left < 0:
                self.is_over = False
                raise KeyboardInterrupt
        return self._trace
