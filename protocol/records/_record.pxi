"""Part of _batch.pyx: the record object."""


cdef tuple _NAMES = (
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch",
)


@cython.freelist(4096)
cdef class Record:
    """One record for the application: immutable; `replace` makes another one.

    A decoded record refers only to bytes, strings and tuples of them. It cannot be part of a cycle, so the
    garbage collector does not track it (tracking costs more than decoding). `_fill` stores other objects in it,
    before the application gets the record, and makes the collector track it.
    """

    cdef object _topic
    cdef object _key
    cdef object _value
    cdef object _headers
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly int partition
    cdef readonly int timestamp_type
    cdef readonly int leader_epoch

    def __init__(
        self, topic, partition, offset, timestamp, timestamp_type, key, value, headers=(), leader_epoch=-1
    ):
        self._topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self._key = key
        self._value = value
        self._headers = headers
        self.leader_epoch = leader_epoch

    def __setattr__(self, name, value):
        raise AttributeError(f"records are immutable: record.replace({name}=...) makes another one")

    def __delattr__(self, name):
        raise AttributeError(f"records are immutable: {name} cannot be deleted")

    def _fill(self, key, value):
        """Store the deserialised key and value, before the application gets the record."""
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(self)
        self._key = key
        self._value = value

    def replace(self, **changes):
        """A copy with other values of these attributes. Errors: TypeError for an unknown attribute."""
        facts = dict(zip(_NAMES, self._facts()))
        return Record(**(facts | changes))

    @property
    def topic(self):
        return self._topic

    @property
    def key(self):
        return self._key

    @property
    def value(self):
        return self._value

    @property
    def headers(self):
        return self._headers

    cdef tuple _facts(self):
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __repr__(self):
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, timestamp_type={self.timestamp_type}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self._facts() == (<Record>other)._facts()

    def __hash__(self):
        return hash(self._facts())

    def __reduce__(self):
        return Record, self._facts()


def with_header(list records not None, str name not None, Py_ssize_t start):
    """Positions, from `start` on, of the records with a header of this name."""
    cdef Py_ssize_t position
    cdef list found = []
    cdef object record, headers
    for position in range(max(start, 0), len(records)):
        record = records[position]
        headers = (<Record>record)._headers if type(record) is Record else record.headers
        if headers is not _NO_HEADERS:
            for header in headers:
                if header[0] == name:
                    found.append(position)
                    break
    return found
