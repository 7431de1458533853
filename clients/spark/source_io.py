"""`spark.read.format("headrace")` and its like: the data source of PySpark 4.2 and newer.

Spark runs it in Python processes: one that plans, tasks that read and write, one that commits. Objects go
from one to the next by pickle, so they hold options and no connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.extras import missing_extra

try:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow  # noqa: F401  # the newest used
except ImportError as error:
    purpose = (
        "format('headrace') needs PySpark 4.2 or newer (on PySpark 3.5 take headrace.spark.read, write,"
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
    """Topics, read and written. Register it with `register`; `spark.dataSource.register` does too, without
    the push-down of filters. Options are those of `read_options` and of `write_options`, with `exactlyOnce`.

    Its errors come through Spark as text: ConfigError, UnknownTopicOrPartitionError, DataLossError, others.
    """

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "headrace"

    def schema(self) -> str:
        """Spark's Kafka columns. Errors: ConfigError."""
        freeze_imports()
        return schema_of(None, include_headers=self._options_of_any_read().include_headers)[1]

    def reader(self, schema: Any) -> Reader:
        """A batch. `schema` may be some of the columns: the others are not decoded then."""
        freeze_imports()
        return Reader(read_options(self.options), checked_columns(schema))

    def streamReader(self, schema: Any) -> StreamReader:
        """A stream of micro-batches, with the same columns."""
        return StreamReader(read_options(self.options, stream=True), checked_columns(schema))

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        """A batch that is appended. Errors: ConfigError, TypeError, ValueError."""
        if overwrite:
            raise ConfigError('a topic is not overwritten: write with mode("append")')
        return BatchWriter(delivery(self.options, schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        """The micro-batches of a query are appended; in the output mode complete (`overwrite`) each is the
        whole result again, as with Kafka. Errors: as `writer`."""
        return StreamWriter(delivery(self.options, schema))

    def _options_of_any_read(self) -> ReadOptions:
        """Nobody says yet whether it is a batch or a stream."""
        try:
            return read_options(self.options)
        except ConfigError as error:
            try:
                return read_options(self.options, stream=True)
            except ConfigError:
                raise error from None


class _FilteringDataSource(HeadraceDataSource):
    """Spark refuses a reader that takes filters where it is not allowed to give any."""

    def reader(self, schema: Any) -> Reader:
        freeze_imports()
        return FilteringReader(read_options(self.options), checked_columns(schema))


def register(spark: Any, *, push_filters: bool = True) -> None:
    """Make `format("headrace")` known to a session. With `push_filters`, filters on topic, partition, offset
    and timestamp say what is read at all: Spark's own setting for that, which is off by default and for all
    data sources in Python, is set for this session."""
    if push_filters:
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(_FilteringDataSource if push_filters else HeadraceDataSource)
