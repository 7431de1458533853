"""CPU time and memory of a process and its children."""

import json
import subprocess
import sys
import time

from headrace.benchmarks.spark.usage_io import Cpu, anonymous_mb

MB = 60
CHILD = f"""
import os, sys, time
kept = b"x" * {MB} * 10**6
if not os.fork():
    print(flush=True)
    sys.stdin.read()
    os._exit(0)
os.wait()
"""
# in a process of its own: the test process may have children of other tests
PARENT = """
import json, os, subprocess, sys
from headrace.benchmarks.spark.usage_io import Memory, anonymous_mb

command = [sys.executable, "-c", sys.argv[1]]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    with Memory(lambda: 7_000_000) as memory:
        own_mb = anonymous_mb(os.getpid())
    child.communicate()
print(json.dumps([memory.figures(), own_mb]))
"""


def test_memory_of_forks_is_counted_once() -> None:
    """Two processes share the pages that the first one wrote: each counts half of them."""
    command = [sys.executable, "-c", PARENT, CHILD]
    found, own_mb = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert MB / 2 < found["worker_mb"] < MB
    assert MB < found["python_mb"] - own_mb < 2 * MB
    assert (found["jvm_mb"], found["store_mb"]) == (0.0, 7.0)


def test_ended_process_has_no_memory() -> None:
    """It may end while it is measured."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert anonymous_mb(child.pid) == 0.0


def test_cpu_time_within_the_context() -> None:
    """Of this process."""
    before_s = time.process_time()
    with Cpu() as cpu:
        while time.process_time() < before_s + 0.05:
            pass
    assert cpu.figures()["cpu_s"] >= 0.03
