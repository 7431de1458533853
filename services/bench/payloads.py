"""Reproducible values and keys of benchmark records, generated before the measurement."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PayloadKind = Literal["random", "text", "zeros"]
PAYLOAD_KINDS: tuple[PayloadKind, ...] = ("random", "text", "zeros")

# Bound: values repeat after this many bytes or records: far more than one batch, so that a codec does not see
# a value twice in it, and few enough that memory bandwidth is not measured.
POOL_BYTES = 8 << 20
POOL_RECORDS = 10_000
LARGEST_FILE_BYTES = 64 << 20
MOST_KEYS = 1_000_000
LARGEST_VALUE = 100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Values of `size` bytes, or the lines of `file`, with `keys` distinct keys of `key_size` bytes (0: no
    keys). The kind text generates rows of JSON. The same payload and `index` give the same bytes
    everywhere."""

    kind: PayloadKind = "random"
    size: int = 100
    seed: int = 1
    file: str | None = None
    keys: int = 0
    key_size: int = 8

    def check(self) -> None:
        """Errors: OSError; ValueError for an unusable file or impossible keys."""
        if self.keys > MOST_KEYS:
            raise ValueError(f"at most {MOST_KEYS} distinct keys are possible, not {self.keys}")
        if self.keys > 256**self.key_size:
            raise ValueError(f"keys of {self.key_size} bytes cannot have {self.keys} distinct values")
        if self.file is not None:
            _lines(self.file)

    def values(self, index: int = 0) -> list[bytes]:
        """The values that process `index` sends in turn. Errors: OSError; ValueError for a file without lines
        or above 64 MiB."""
        if self.file is not None:
            return _lines(self.file)
        count = max(min(POOL_RECORDS, POOL_BYTES // max(self.size, 1)), 2)
        if self.kind == "zeros" or not self.size:
            return [bytes(self.size)] * count
        generator = random.Random(f"{self.seed}/{index}")  # noqa: S311 - filler, not a secret
        if self.kind == "text":
            return [_row(generator, number, self.size) for number in range(count)]
        data = generator.randbytes(count * self.size)
        return [data[at : at + self.size] for at in range(0, count * self.size, self.size)]

    def distinct_keys(self) -> list[bytes]:
        """All keys, the same in every process; empty without keys."""
        return [number.to_bytes(self.key_size, "big") for number in range(self.keys)]

    def keyed(self, values: list[bytes], index: int = 0) -> list[bytes | None]:
        """A key for each value, uniformly distributed and reproducible; None for each without keys."""
        keys = self.distinct_keys()
        if not keys:
            return [None] * len(values)
        generator = random.Random(f"{self.seed}/{index}/keys")  # noqa: S311 - filler, not a secret
        return [keys[number] for number in generator.choices(range(len(keys)), k=len(values))]


def _lines(file: str) -> list[bytes]:
    with Path(file).open("rb") as stream:
        data = stream.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise ValueError(f"{file}: a payload file has at most {LARGEST_FILE_BYTES >> 20} MiB")
    lines = [line for line in data.splitlines() if line]
    if not lines:
        raise ValueError(f"{file}: the payload file has no lines")
    return lines


def _row(generator: random.Random, number: int, size: int) -> bytes:
    """`size` bytes of JSON like a service's log; such rows compress about 4:1."""
    row = bytearray()
    while len(row) < size:
        row += json.dumps(
            {
                "id": number,
                "user": generator.randrange(10**6),
                "path": f"/api/v1/items/{generator.randrange(5000)}",
                "message": f"request handled in {generator.randrange(1000)} ms",
                "status": generator.choice([200, 200, 200, 304, 404, 500]),
            }
        ).encode()
    return bytes(row[:size])
