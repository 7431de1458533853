"""Part of _batch.pyx: the record object."""


@cython.freelist(4096)
cdef class Record:
    """One record as a consumer sees it. Plain attributes, so that deserialisers can replace key and value.

    A decoded record holds only bytes, strings and tuples of them, so it cannot be part of a cycle and is
    not tracked by the garbage collector (which costs more than decoding it). Setting an attribute to
    something else hands the record back to the collector.
    """

    cdef object _topic
    cdef object _key
    cdef object _value
    cdef object _headers
    cdef public long long offset
    cdef public long long timestamp
    cdef public int partition
    cdef public int timestamp_type
    cdef public int leader_epoch

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

    cdef inline int _track(self) except -1:
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(self)
        return 0

    @property
    def topic(self):
        return self._topic

    @topic.setter
    def topic(self, topic):
        self._track()
        self._topic = topic

    @property
    def key(self):
        return self._key

    @key.setter
    def key(self, key):
        self._track()
        self._key = key

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        self._track()
        self._value = value

    @property
    def headers(self):
        return self._headers

    @headers.setter
    def headers(self, headers):
        self._track()
        self._headers = headers

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
        raise TypeError("unhashable type: 'Record'")

    def __reduce__(self):
        return Record, self._facts()
