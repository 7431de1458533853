"""`spark.read.format("headrace")` and so on: the data source of PySpark 4.2 and newer.

Spark runs it in Python processes: one that plans, tasks that read and write, one that commits. Objects are
passed between them by pickle, so they contain options and no connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.extras import missing_extra

try:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow  # noqa: F401  # the newest used
except ImportError as error:
    purpose = (
        "format('headrace') needs PySpark 4.2 or newer (on PySpark 3.5 use headrace.spark.read, write,"
        " write_batch and stream)"
    )
    raise missing_extra(error, purpose, "spark") from error

from ...protocol.errors import ConfigError
from ..pipeline.source_options import read_options
from .batch_reader_io import FilteringReader, Reader
from .schemas import checked_columns, schema_of
from .source_writer_io import BatchWriter, StreamWriter, delivery
from .stream_reader_io import StreamReader
from .worker_garbage_io import freeze_imports

if TYPE_CHECKING:
    from ..pipeline.source_options import ReadOptions

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class HeadraceDataSource(DataSource):
    """The data source of topics. Register it with `register`; `spark.dataSource.register` works too, without
    filter push-down. Options are those of `read_options` and `write_options`, and `exactlyOnce`.

    Its errors are passed through Spark as text: ConfigError, UnknownTopicOrPartitionError, DataLossError,
    others.
    """

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return "headrace"

    def schema(self) -> str:
        """The columns of Spark's Kafka source. Errors: ConfigError."""
        freeze_imports()
        return schema_of(None, include_headers=self._options_of_any_read().include_headers)[1]

    def reader(self, schema: Any) -> Reader:
        """The reader of a batch. `schema` may have some of the columns: the others are not decoded."""
        freeze_imports()
        return Reader(read_options(self.options), checked_columns(schema))

    def streamReader(self, schema: Any) -> StreamReader:
        """The reader of micro-batches, with the same columns."""
        return StreamReader(read_options(self.options, stream=True), checked_columns(schema))

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        """The writer of a batch, in append mode. Errors: ConfigError, TypeError, ValueError."""
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: write with mode("append")')
        return BatchWriter(delivery(self.options, schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        """The writer of micro-batches in append mode; in the output mode complete (`overwrite`) each
        micro-batch is the whole result again, as with Kafka. Errors: as `writer`."""
        return StreamWriter(delivery(self.options, schema))

    def _options_of_any_read(self) -> ReadOptions:
        """Options valid for a batch or a stream, which is not known yet."""
        try:
            return read_options(self.options)
        except ConfigError as error:
            try:
                return read_options(self.options, stream=True)
            except ConfigError:
                raise error from None


class _FilteringDataSource(HeadraceDataSource):
    """A data source with filter push-down: Spark rejects a reader with filters where push-down is
    disabled."""

    def reader(self, schema: Any) -> Reader:
        freeze_imports()
        return FilteringReader(read_options(self.options), checked_columns(schema))


def register(spark: Any, *, push_filters: bool = True) -> None:
    """Register `format("headrace")` in a session. With `push_filters`, filters on topic, partition, offset
    and timestamp reduce what is read: this enables Spark's setting for Python data sources, which is off by
    default, for this session."""
    if push_filters:
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(_FilteringDataSource if push_filters else HeadraceDataSource)
