"""Small text files of a log dir, in Kafka's formats: parse and format, no IO.

Shapes (lines end in LF):
  offset checkpoint        "0", count, then "<topic> <partition> <offset>" per line
  leader-epoch-checkpoint  "0", count, then "<epoch> <start offset>" per line
  partition.metadata       "version: 0", "topic_id: <base64>"
  meta.properties          Java properties: version=1, cluster.id, node.id, directory.id
  clean shutdown marker    JSON {"version":0,"brokerEpoch":n}
Errors: every parse raises CorruptFileError with the line.
Source: Kafka CheckpointFile.java, PartitionMetadataFile.java, MetaProperties.java,
CleanShutdownFileHandler.java.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from .leader_epochs import EpochEntry, LeaderEpochs

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_TOPIC_ID = bytes(16)
_VERSION = "0"
_UNKNOWN_BROKER_EPOCH = -1


class CorruptFileError(HeadraceError):
    """A stored file is damaged; the message has the line or byte."""


def uuid_text(uuid: bytes) -> str:
    """Kafka's text form of a UUID: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes behind `uuid_text`."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptFileError(f"{text[:60]!r} is not a UUID") from error
    if len(uuid) != 16:
        raise CorruptFileError(f"{text[:60]!r} has {len(uuid)} bytes, a UUID has 16")
    return uuid


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: one offset per partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return _with_header(lines)


def parse_offsets(content: bytes) -> dict[TopicPartition, int]:
    """The offsets in an offset checkpoint."""
    offsets = {}
    for number, line in _entries(content):
        words = line.split(" ")
        if len(words) != 3:
            raise CorruptFileError(f"line {number}: {line[:80]!r} is not '<topic> <partition> <offset>'")
        offsets[TopicPartition(words[0], _integer(words[1], number))] = _integer(words[2], number)
    return offsets


def format_epochs(epochs: tuple[EpochEntry, ...]) -> bytes:
    """A leader-epoch-checkpoint."""
    return _with_header([f"{entry.epoch} {entry.start_offset}" for entry in epochs])


def parse_epochs(content: bytes) -> list[EpochEntry]:
    """The entries of a leader-epoch-checkpoint, rising in epoch and offset."""
    entries: list[EpochEntry] = []
    for number, line in _entries(content):
        words = line.split(" ")
        if len(words) != 2:
            raise CorruptFileError(f"line {number}: {line[:80]!r} is not '<epoch> <start offset>'")
        entries.append(EpochEntry(_integer(words[0], number), _integer(words[1], number)))
    if LeaderEpochs(entries).entries != tuple(entries) or any(min(entry) < 0 for entry in entries):
        raise CorruptFileError("epochs and start offsets do not rise")
    return entries


def format_partition_metadata(topic_id: bytes) -> bytes:
    """A partition.metadata file."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def parse_partition_metadata(content: bytes) -> bytes:
    """The topic id in a partition.metadata file."""
    facts = dict(line.partition(": ")[::2] for line in _lines(content) if line)
    if facts.get("version") != _VERSION or "topic_id" not in facts:
        raise CorruptFileError(f"{content[:80]!r} is not a partition.metadata file of version 0")
    return uuid_from_text(facts["topic_id"].strip())


def format_properties(properties: Mapping[str, str]) -> bytes:
    """A Java properties file, keys in the given order."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items()).encode()


def parse_properties(content: bytes) -> dict[str, str]:
    """The values of a Java properties file; comments start with '#' or '!'."""
    properties = {}
    for number, line in enumerate(_lines(content), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise CorruptFileError(f"line {number}: {text[:80]!r} has no '='")
        properties[name.strip()] = _unescaped(value.strip())
    return properties


def format_clean_shutdown(broker_epoch: int) -> bytes:
    """The clean-shutdown marker."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def parse_clean_shutdown(content: bytes) -> int:
    """The broker epoch in a clean-shutdown marker, -1 without one; the marker is valid all the same."""
    try:
        facts = json.loads(content)
    except ValueError:
        return _UNKNOWN_BROKER_EPOCH
    epoch = facts.get("brokerEpoch") if isinstance(facts, dict) else None
    return epoch if isinstance(epoch, int) else _UNKNOWN_BROKER_EPOCH


def _with_header(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [_VERSION, str(len(lines)), *lines]).encode()


def _entries(content: bytes) -> list[tuple[int, str]]:
    """Numbered entry lines; the count in the second line must match, so that a truncated file is rejected.

    Kafka creates a checkpoint as an empty file: it has no entries.
    """
    if not content:
        return []
    lines = _lines(content)
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2:
        raise CorruptFileError(f"{len(lines)} lines, a checkpoint has at least a version and a count")
    if lines[0].strip() != _VERSION:
        raise CorruptFileError(f"line 1: version {lines[0][:20]!r}, only {_VERSION} is known")
    count = _integer(lines[1], 2)
    if count != len(lines) - 2:
        raise CorruptFileError(f"line 2: says {count} entries, {len(lines) - 2} follow")
    return list(enumerate(lines[2:], 3))


def _lines(content: bytes) -> list[str]:
    try:
        return content.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"byte {error.start} is not text") from error


def _integer(word: str, line_number: int) -> int:
    digits = word.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise CorruptFileError(f"line {line_number}: {word[:40]!r} is not a number")
    return int(word)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("=", "\\=").replace(":", "\\:")


def _unescaped(value: str) -> str:
    parts = value.split("\\\\")
    return "\\".join(part.replace("\\=", "=").replace("\\:", ":") for part in parts)
