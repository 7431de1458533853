"""Reads metadata snapshots and logs from the disk of a controller, which may run or not; writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..controller.config import ControllerConfig
from ..controller.quorum.log_recovery import METADATA_PARTITION
from ..controller.quorum.record_batches import decode_batches
from ..controller.quorum.snapshots import SUFFIX, list_snapshots, read_snapshot
from ..protocol.errors import ConfigError, CorruptMessageError, HeadraceError
from ..protocol.metadata.image import MetadataImage
from ..protocol.metadata.replay import replay
from ..protocol.records.header import HEADER_BYTES, read_batch_header
from ..runtime.files.files_io import OsFiles
from ..storage_node.configs.client_metrics_config import ClientMetricsConfig
from ..storage_node.configs.group_config import GroupConfig
from ..storage_node.configs.node_config import NodeConfig
from ..storage_node.log.config import LogConfig
from .metadata_tree import plain_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..controller.quorum.record_batches import StoredBatch
    from ..runtime.config import Config

_LOG = "*.log"


class NoMetadataError(HeadraceError):
    """There is no metadata where it was looked for."""


def metadata_folder(path: Path) -> Path:
    """The folder of the metadata log: `path` itself, or the only one below it, of a server or a data dir.

    Errors: NoMetadataError; ConfigError if the data dir has several controllers.
    """
    folder = str(METADATA_PARTITION)
    if path.name == folder or list(path.glob(f"*{SUFFIX}")):
        return path
    found = sorted({*path.glob(folder), *path.glob(f"*/{folder}"), *path.glob(f"*/*/{folder}")})
    if not found:
        raise NoMetadataError(
            f"{path} has no metadata: give the data dir of a controller, its {folder}, or a {SUFFIX} file"
        )
    if len(found) > 1:
        names = ", ".join(str(each.parent) for each in found)
        raise ConfigError(f"{path} has the metadata of several controllers: give one of {names}")
    return found[0]


def read_image(path: Path) -> tuple[MetadataImage, str]:
    """The newest image at `path`, a snapshot file or a folder, and a text about its origin.

    Of a folder it is the newest snapshot and the log after it. The end of the log may not be
    committed yet: which records are is known to a running quorum only. Errors: NoMetadataError,
    CorruptMessageError, ConfigError.
    """
    if path.is_file():
        match = [each for each in list_snapshots(OsFiles(), str(path.parent)) if each.file_name == path.name]
        if not match:
            raise NoMetadataError(f"{path.name} is no snapshot: <20 digits>-<10 digits>{SUFFIX}")
        return read_snapshot(OsFiles(), str(path.parent), match[0])[0], f"snapshot {path.name}"
    folder = metadata_folder(path)
    image, origin = MetadataImage(), "the log"
    snapshots = list_snapshots(OsFiles(), str(folder))
    if snapshots:
        image, _ = read_snapshot(OsFiles(), str(folder), snapshots[0])
        origin = f"snapshot {snapshots[0].file_name}"
    count = 0
    for batch in log_batches(folder, image.offset + 1):
        header = batch.header
        if header.next_offset <= image.offset + 1:
            continue
        if header.base_offset != image.offset + 1:
            raise CorruptMessageError(
                f"{folder}: the log continues at offset {header.base_offset}, not {image.offset + 1}"
            )
        image, _ = replay(image, header.base_offset, batch.to_apply)
        count += 1
    return image, f"{origin} and {count} batches of the log" if count else origin


def log_batches(folder: Path, start: int = 0) -> Iterator[StoredBatch]:
    """The whole batches of the log from the segment with offset `start` on. A batch at the end that is being
    written is left out. Errors: CorruptMessageError."""
    segments = sorted(folder.glob(_LOG))
    first = [path for path in segments if int(path.stem) <= start]
    for path in segments[max(len(first) - 1, 0) :]:
        data = path.read_bytes()
        yield from decode_batches(memoryview(data)[: _whole(data)])


def _whole(data: bytes) -> int:
    """The end of the last whole batch; zeros are space that was reserved."""
    end = 0
    while end + HEADER_BYTES <= len(data) and any(data[end : end + HEADER_BYTES]):
        header = read_batch_header(data, end)
        if end + header.size_bytes > len(data):
            break
        end += header.size_bytes
    return end


def log_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The records of the log with their offsets and epochs, JSON-able, without secrets. Errors:
    CorruptMessageError."""
    shown = shown_keys()
    for batch in log_batches(folder):
        for index, record in enumerate(batch.records):
            place = {"offset": batch.header.base_offset + index, "epoch": batch.header.leader_epoch}
            yield {**place, **plain_record(record, shown)}


def shown_keys() -> Callable[[str], bool]:
    """Whether values of a config key may be shown: it is declared, and not sensitive."""
    schemas: tuple[type[Config], ...] = (
        LogConfig,
        NodeConfig,
        GroupConfig,
        ClientMetricsConfig,
        ControllerConfig,
    )
    shown = {
        declaration.name
        for schema in schemas
        for declaration in schema.keys().values()
        if not declaration.is_sensitive
    }
    return lambda key: key in shown
