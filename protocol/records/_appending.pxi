"""Part of _batch.pyx: common records are appended to a producer's batches without its lock.

See clients/producer/lanes.py for the rules. `CompiledLanes.send` selects the partition, encodes the record and
makes the future without running Python code, so it is atomic under the GIL. All other records are appended by
the producer's Python code. No step between the check of a slot and the append may run Python code: it must not
make an object that the garbage collector tracks, or drop a reference whose finalizer could run.
"""

cdef extern from "Python.h":
    bint PyBytes_CheckExact(object thing)
    bint PyUnicode_CheckExact(object thing)
    bint PyLong_CheckExact(object thing)
    Py_ssize_t PyList_GET_SIZE(list things)
    ctypedef struct PyTypeObject:
        void *tp_dict
    void PyType_Modified(PyTypeObject *kind)
    ctypedef struct PyObject
    int PyContextVar_Get(object variable, PyObject *default_value, PyObject **value) except -1
    void Py_XDECREF(PyObject *thing)

cdef extern from "<time.h>" nogil:
    ctypedef int clockid_t
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(clockid_t clock, timespec *now)
    clockid_t CLOCK_REALTIME


cdef inline int64_t _wall_ms() noexcept nogil:
    """The same time as runtime.clock_io.wall_ms; -1 if the clock cannot be read."""
    cdef timespec now
    if clock_gettime(CLOCK_REALTIME, &now) != 0:
        return -1
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


@cython.freelist(1024)
@cython.no_gc
cdef class RecordFuture:
    """The outcome of one record, with those methods of concurrent.futures.Future that read a result.

    Only the fields are defined here; `adopt` assigns the methods of the Python class in clients/producer. The
    garbage collector does not track these futures, because there may be millions; it would track instances of a
    Python subclass. The one cycle they can be part of (a done callback that refers to the future) ends when the
    batch completes.
    """

    cdef readonly object delivery
    cdef readonly long long _timestamp
    cdef readonly int _index
    cdef readonly int _key_size
    cdef readonly int _value_size

    def __init__(self, delivery, int index, long long timestamp, int key_size, int value_size):
        self.delivery = delivery
        self._timestamp = timestamp
        self._index = index
        self._key_size = key_size
        self._value_size = value_size

    def __repr__(self):
        return self._text()


def adopt(readable not None):
    """RecordFuture with the methods of `readable`, a Python class with the same fields."""
    cdef dict methods = <dict>(<PyTypeObject *>RecordFuture).tp_dict
    for name, method in vars(readable).items():
        if callable(method) and not (name.startswith("__") and name.endswith("__")):
            methods[name] = method
    PyType_Modified(<PyTypeObject *>RecordFuture)
    return RecordFuture


@cython.final
cdef class CompiledSlot:
    """The open batch of one partition, while records may be appended to it without the lock."""

    cdef CompiledBatchBuilder _builder
    cdef object _delivery
    cdef Py_ssize_t _limit_bytes

    def open(self, CompiledBatchBuilder builder not None, delivery, Py_ssize_t limit_bytes):
        if builder._is_built or not builder.count:
            raise ValueError("a slot is open for a batch with records that is not built")
        # Order: the builder last, because it opens the slot.
        self._delivery = delivery
        self._limit_bytes = min(limit_bytes, builder._max_bytes, <Py_ssize_t>INT32_MAX)
        self._builder = builder

    def close(self):
        self._builder = None
        self._delivery = None


@cython.final
cdef class CompiledLane:
    """The slots of one topic."""

    cdef list _slots
    cdef Py_ssize_t _count
    cdef CompiledSlot _sticky

    def __cinit__(self):
        self._slots = []

    def add_slot(self):
        slot = CompiledSlot()
        self._slots.append(slot)
        return slot

    def set_count(self, Py_ssize_t partition_count):
        if not 0 <= partition_count <= len(self._slots):
            raise ValueError(f"{partition_count} partitions of {len(self._slots)} slots")
        self._count = partition_count

    def stick_to(self, Py_ssize_t partition):
        self._sticky = self._slots[partition] if 0 <= partition < len(self._slots) else None


@cython.final
cdef class CompiledLanes:
    """The lanes of one producer, and its `send`.

    `send_slowly` is the Python implementation, with the same signature; `max_record_bytes` bounds the size of
    key and value together.
    """

    cdef dict _lanes
    cdef object _send_slowly
    cdef Py_ssize_t _max_record_bytes
    cdef bint _ignore_keys
    cdef object _context_variable
    cdef object _idle_context

    def __cinit__(self, Py_ssize_t max_record_bytes, bint ignore_keys):
        self._lanes = {}
        self._max_record_bytes = max_record_bytes
        self._ignore_keys = ignore_keys

    def add_lane(self, str topic not None):
        lane = self._lanes[topic] = CompiledLane()
        return lane

    def close(self):
        self._lanes = {}

    def bind(self, send_slowly):
        self._send_slowly = send_slowly
        return self.send

    def bind_traced(self, send_slowly, variable):
        self._send_slowly = send_slowly
        self._context_variable = variable
        self._idle_context = variable.get()
        return self.send_traced

    def set_idle_context(self, context):
        self._idle_context = context

    def send(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=()):
        """send(topic, value=None, *, key=None, partition=None, timestamp=None, headers=())
--

Send one record; see `Producer.send`."""
        cdef object future
        if headers is _NO_HEADERS:
            future = self._try(topic, value, key, partition, timestamp)
            if future is not None:
                return future
        return self._send_slowly(
            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
        )

    def send_traced(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=()):
        """send(topic, value=None, *, key=None, partition=None, timestamp=None, headers=())
--

Send one record; see `Producer.send`."""
        cdef object future
        cdef PyObject *context = NULL
        cdef bint is_idle
        if headers is _NO_HEADERS:
            PyContextVar_Get(self._context_variable, NULL, &context)
            is_idle = context == <PyObject *>self._idle_context
            Py_XDECREF(context)
            if is_idle:
                future = self._try(topic, value, key, partition, timestamp)
                if future is not None:
                    return future
        return self._send_slowly(
            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
        )

    def try_send(self, topic, value, key, partition):
        return self._try(topic, value, key, partition, None)

    def append_run(
        self, topic, list keys not None, list values not None, list timestamps not None, partition, start
    ):
        cdef Py_ssize_t position = start, count = len(keys), first_row = start, number = 0
        cdef Py_ssize_t key_bytes, value_bytes
        cdef CompiledLane lane
        cdef CompiledSlot slot = None
        cdef int64_t timestamp
        cdef int overflow = 0, index
        cdef int32_t part
        cdef list deliveries = []
        cdef bytes firsts, numbers, latest
        cdef int32_t *first_of
        cdef int32_t *out
        cdef int32_t *part_of  # index of the partition's part; -1: the partition has none
        if len(values) != count or len(timestamps) != count or not 0 <= position <= count:
            raise ValueError(f"{count} keys, {len(values)} values, {len(timestamps)} timestamps from {start}")
        found = self._lanes.get(topic)
        if found is None or (partition is None and self._ignore_keys):
            return [], (), ()
        lane = <CompiledLane>found
        if partition is not None:
            number = partition
            if not 0 <= number < lane._count:
                return [], (), ()
            slot = <CompiledSlot>lane._slots[number]
        elif not lane._count:
            return [], (), ()
        # Order: allocations first. The loop runs no Python code, so neither the lists nor the slots change.
        numbers = PyBytes_FromStringAndSize(NULL, (count - position) * sizeof(int32_t))
        firsts = PyBytes_FromStringAndSize(NULL, lane._count * sizeof(int32_t))
        latest = PyBytes_FromStringAndSize(NULL, lane._count * sizeof(int32_t))
        out = <int32_t *>PyBytes_AS_STRING(numbers)
        first_of = <int32_t *>PyBytes_AS_STRING(firsts)
        part_of = <int32_t *>PyBytes_AS_STRING(latest)
        memset(part_of, 0xFF, lane._count * sizeof(int32_t))
        while position < count:
            key, value = <object>keys[position], <object>values[position]
            given_ms = <object>timestamps[position]
            key_bytes = value_bytes = -1
            if key is not None:
                if not PyBytes_CheckExact(key):
                    break
                key_bytes = PyBytes_GET_SIZE(key)
            if value is not None:
                if not PyBytes_CheckExact(value):
                    break
                value_bytes = PyBytes_GET_SIZE(value)
            if max(key_bytes, 0) > self._max_record_bytes - max(value_bytes, 0):
                break
            if not PyLong_CheckExact(given_ms):
                break
            timestamp = PyLong_AsLongLongAndOverflow(given_ms, &overflow)
            if overflow or timestamp < 0:
                break
            if partition is None:
                if key is None:
                    break
                number = _murmur2(<const uint8_t *>PyBytes_AS_STRING(key), key_bytes) & 0x7FFFFFFF
                number %= lane._count
                slot = <CompiledSlot>lane._slots[number]
            index = _append_common(slot, timestamp, key, key_bytes, value, value_bytes)
            if index < 0:
                break
            part = part_of[number]
            if part < 0:
                part = part_of[number] = <int32_t>PyList_GET_SIZE(deliveries)
                first_of[part] = index
                deliveries.append(slot._delivery)  # a growing list makes no new object: no garbage collection
            out[position - first_row] = part
            position += 1
        return (
            deliveries,
            memoryview(firsts).cast("i")[:len(deliveries)],
            memoryview(numbers).cast("i")[:position - first_row],
        )

    cdef object _try(self, topic, value, key, partition, given_ms):
        """The future of an appended record; None, without an append, if it needs the Python implementation."""
        cdef CompiledLane lane
        cdef CompiledSlot slot
        cdef RecordFuture future
        cdef Py_ssize_t key_bytes = -1, value_bytes = -1
        cdef long long number
        cdef int64_t timestamp
        cdef int overflow = 0, index
        if not PyUnicode_CheckExact(topic):
            return None
        if value is not None:
            if not PyBytes_CheckExact(value):
                return None
            value_bytes = PyBytes_GET_SIZE(value)
        if key is not None:
            if not PyBytes_CheckExact(key):
                return None
            key_bytes = PyBytes_GET_SIZE(key)
        if max(key_bytes, 0) > self._max_record_bytes - max(value_bytes, 0):
            return None
        found = self._lanes.get(topic)
        if found is None:
            return None
        lane = <CompiledLane>found
        if partition is not None:
            if not PyLong_CheckExact(partition):
                return None
            number = PyLong_AsLongLongAndOverflow(partition, &overflow)
            if overflow or not 0 <= number < lane._count:
                return None
            slot = <CompiledSlot>lane._slots[<Py_ssize_t>number]
        elif key is None or self._ignore_keys:
            slot = lane._sticky
            if slot is None:
                return None
        elif lane._count:
            number = _murmur2(<const uint8_t *>PyBytes_AS_STRING(key), key_bytes) & 0x7FFFFFFF
            slot = <CompiledSlot>lane._slots[<Py_ssize_t>(number % lane._count)]
        else:
            return None
        if given_ms is None:
            timestamp = _wall_ms()
        elif PyLong_CheckExact(given_ms):
            timestamp = PyLong_AsLongLongAndOverflow(given_ms, &overflow)
            if overflow:
                return None
        else:
            return None
        if slot._builder is None or timestamp < 0:
            return None
        # Order: make the future first, because this may fail; then check the slot and append.
        future = RecordFuture.__new__(RecordFuture)
        index = _append_common(slot, timestamp, key, key_bytes, value, value_bytes)
        if index < 0:
            return None
        future.delivery = slot._delivery
        future._index = index
        future._timestamp = timestamp
        future._key_size = <int>key_bytes
        future._value_size = <int>value_bytes
        return future


cdef inline int _append_common(
    CompiledSlot slot, int64_t timestamp, key, Py_ssize_t key_bytes, value, Py_ssize_t value_bytes
) except -2:
    """Append a record without headers to the slot's batch; returns its index, or -1 if the slot is closed or the
    record would exceed its limit. Runs no Python code. Errors: MemoryError, with nothing appended."""
    cdef CompiledBatchBuilder builder = slot._builder
    cdef Py_ssize_t body_bytes, size_bytes
    cdef int64_t delta
    cdef uint8_t *out
    if builder is None:
        return -1
    # No overflow: the batch of an open slot has a base timestamp, and both timestamps are at least -1.
    delta = timestamp - builder._base_timestamp
    body_bytes = (
        2  # attributes, and a header count of 0
        + _varint_size(delta)
        + _varint_size(builder.count)
        + _nullable_size(key_bytes)
        + _nullable_size(value_bytes)
    )
    size_bytes = builder._size + _varint_size(body_bytes) + body_bytes
    if size_bytes > slot._limit_bytes:
        return -1
    builder._reserve(size_bytes)
    out = _put_varint(builder._data + builder._size, body_bytes)
    out[0] = 0
    out = _put_varint(out + 1, delta)
    out = _put_varint(out, builder.count)
    out = _put_nullable(out, key, key_bytes)
    out = _put_nullable(out, value, value_bytes)
    out[0] = 0
    assert out + 1 == builder._data + size_bytes, "the size computed is the size written"
    builder._size = size_bytes
    if timestamp > builder._max_timestamp:
        builder._max_timestamp = timestamp
    builder.count += 1
    return builder.count - 1


def plain_sizes(list values not None, Py_ssize_t start, Py_ssize_t max_bytes):
    """The sizes of the values from `start` to the first that is not a bytes object of at most `max_bytes`.

    Shape: a memoryview of int32.
    """
    cdef Py_ssize_t position, count = 0, size, end = len(values)
    cdef int32_t *out
    cdef bytes sizes
    start = min(max(start, 0), end)
    sizes = PyBytes_FromStringAndSize(NULL, (end - start) * sizeof(int32_t))
    out = <int32_t *>PyBytes_AS_STRING(sizes)
    max_bytes = min(max_bytes, <Py_ssize_t>INT32_MAX)
    for position in range(start, end):  # no Python code runs here, so the list does not change
        value = <object>values[position]
        if not PyBytes_CheckExact(value):
            break
        size = PyBytes_GET_SIZE(value)
        if size > max_bytes:
            break
        out[count] = <int32_t>size
        count += 1
    return memoryview(sizes).cast("i")[:count]
