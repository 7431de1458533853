"""A sampling profiler for one process: the lines that its threads execute, weighted by their CPU time.

It samples every millisecond; a thread that used no CPU time since the last sample is not counted. It costs a
few per cent, needs no compiler switches, and shows compiled calls as the line that calls them. A sample needs
the GIL, so time is attributed to the line that releases the GIL next. A server with one event loop would show
only the line where it waits: with `is_by_signal`, SIGPROF samples its main thread between two bytecodes, and
native code is attributed to the line that runs next. If Linux's `perf` is installed and permitted, it runs in
parallel, and its flat profile of libraries and functions is appended to the table.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

INTERVAL_S = 0.001
TOP = 40
PERF_START_S = 2.0
_PERF_LINE = re.compile(r"\s*([\d.]+)%?\s+(\S+)\s+\[.\]\s+(\S+)")


class Sampler:
    """`start`, `stop`, then `write`: a table of self and inclusive shares, and stacks for a flame graph."""

    def __init__(self, *, is_by_signal: bool = False) -> None:
        self._is_by_signal = is_by_signal
        self._stacks: Counter[tuple[str, ...]] = Counter()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-sampler", daemon=True)
        self._cpu_s = self._wall_s = 0.0
        self._sampled_us = 0
        self._perf: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """One sampler per process."""
        # a thread that waits for the GIL gets it after this time; otherwise samples are late
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(INTERVAL_S)
        self._start_perf()
        self._cpu_s, self._wall_s = time.process_time(), time.monotonic()
        if self._is_by_signal:
            self._sampled_us = time.thread_time_ns() // 1000
            signal.signal(signal.SIGPROF, self._sample)
            signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        else:
            self._thread.start()

    def stop(self) -> None:
        """The samples are kept for `write`."""
        self._ends.set()
        if self._is_by_signal:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
        else:
            self._thread.join()
        sys.setswitchinterval(self._switch_s)
        self._cpu_s = time.process_time() - self._cpu_s
        self._wall_s = time.monotonic() - self._wall_s
        if self._perf is not None:
            # without the sampling thread
            samplers = set() if self._is_by_signal else {str(self._thread.native_id)}
            self._tids = sorted(set(os.listdir("/proc/self/task")) - samplers)
            self._perf.terminate()  # writes its file and ends; SIGINT may be ignored here
            self._perf.wait()
            os.close(self._orders)

    def write(self, path: str | Path) -> None:
        """`path`: the table. `path`.stacks: lines of "outer;inner microseconds" for flame graphs."""
        own: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for stack, count in self._stacks.items():
            own[stack[-1]] += count
            for place in set(stack):
                whole[place] += count
        total = sum(self._stacks.values()) or 1
        sampled_s = total / 1e6
        lines = [
            f"{self._cpu_s:.2f} CPU s in {self._wall_s:.2f} s, {sampled_s:.2f} of them sampled",
            "",
            "self",
        ]
        lines += [f"{100 * count / total:6.1f} %  {place}" for place, count in own.most_common(TOP)]
        lines += ["", "including callees"]
        lines += [f"{100 * count / total:6.1f} %  {place}" for place, count in whole.most_common(TOP)]
        Path(path).write_text("\n".join([*lines, *self._perf_lines()]) + "\n")
        stacks = (f"{';'.join(stack)} {count}" for stack, count in sorted(self._stacks.items()))
        Path(f"{path}.stacks").write_text("\n".join(stacks) + "\n")

    def _start_perf(self) -> None:
        if shutil.which("perf") is None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="bench-perf-")
        orders, tell = os.pipe()
        answers, answer = os.pipe()
        command = ["perf", "record", "-q", "-F", "1999", "-p", str(os.getpid()), "-o", self._data]
        command += ["--delay", "-1", "--control", f"fd:{orders},{answer}"]
        nothing = subprocess.DEVNULL
        self._perf = subprocess.Popen(command, stdout=nothing, stderr=nothing, pass_fds=(orders, answer))
        os.close(orders)
        os.close(answer)
        # it acknowledges when it counts; the pipe closes when it ends without permission
        with contextlib.suppress(BrokenPipeError):
            os.write(tell, b"enable\n")
        select.select([answers], [], [], PERF_START_S)
        os.close(answers)
        self._orders = tell  # perf ends when this pipe is closed

    @property
    def _data(self) -> str:
        return os.path.join(self._folder.name, "perf.data")

    def _perf_lines(self) -> list[str]:
        if self._perf is None:
            return []
        report = ["perf", "report", "-q", "--stdio", "--no-children", "--percentage", "relative"]
        report += ["-i", self._data, "--tid", ",".join(self._tids), "--field-separator", "\t"]
        done = subprocess.run([*report, "--sort", "dso,symbol"], capture_output=True, text=True, check=False)
        self._folder.cleanup()
        libraries: Counter[str] = Counter()  # shares in percent
        functions: list[str] = []
        for line in done.stdout.splitlines():
            if found := _PERF_LINE.match(line):
                share, library, function = float(found[1]), found[2], found[3]
                libraries[library] += share  # perf's own sum over libraries is incomplete
                functions.append(f"{share:6.1f} %  {library} {function}")
        lines = ["", "perf: library"]
        lines += [f"{share:6.1f} %  {library}" for library, share in libraries.most_common(TOP)]
        return [*lines, "", "perf: library and function", *functions[:TOP]]

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        # signals arrive as CPU time passes: the time since the last one is attributed to this line
        now_us = time.thread_time_ns() // 1000
        self._stacks["[MainThread]", *_stack_of(frame)] += now_us - self._sampled_us
        self._sampled_us = now_us

    def _run(self) -> None:
        own = threading.get_ident()
        names: dict[int | None, str] = {}
        used: dict[int, int] = {}
        while not self._ends.wait(INTERVAL_S):
            frames = sys._current_frames()  # noqa: SLF001 - documented, for tools like this one
            if not frames.keys() <= names.keys():
                names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in frames.items():
                # an ended thread has no clock
                if ident == own or ident not in names:
                    continue
                now_us = time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) // 1000
                spent_us = now_us - used.get(ident, now_us)
                used[ident] = now_us
                if spent_us > 0:
                    self._stacks[(f"[{names[ident]}]", *_stack_of(frame))] += spent_us


def _stack_of(frame: FrameType | None) -> tuple[str, ...]:
    places = []
    while frame is not None:
        code = frame.f_code
        file = "/".join(code.co_filename.split("/")[-2:])
        places.append(f"{file}:{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(reversed(places))
