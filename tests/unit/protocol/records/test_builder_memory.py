"""What builders of the compiled codec hold while they grow."""

import subprocess
import sys

GROW_TOGETHER = """if True:
    import tracemalloc
    from headrace.protocol.records.codec import pick_codec

    codec, count = pick_codec("compiled"), 300
    tracemalloc.start()
    builders = [codec.builder(max_bytes=1 << 20) for _ in range(count)]
    for _ in range(9):
        for builder in builders:
            builder.append(0, None, b"x" * 1000)
    held = tracemalloc.get_traced_memory()[0]
    assert held < count * (16_384 + 1000), held
"""


def test_builders_that_grow_leave_no_smaller_blocks_behind() -> None:
    """Hundreds that grow to 9,000 bytes together hold 16 KiB each, and no 8 and 4 KiB more to use again. In a
    process of its own, where no other test has left blocks to use again."""
    subprocess.run([sys.executable, "-c", GROW_TOGETHER], check=True, timeout=500)
