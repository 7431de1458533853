# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled implementation of `multipart_io.Multipart`: sends and receives a whole message in one call, without
releasing the GIL.

It calls the libzmq that pyzmq has loaded; `bind` stores the addresses of the functions.

The free function. A large part is sent without a copy. When the last byte is sent, libzmq calls `headrace_sent`
on one of its threads, which must neither wait for the GIL nor use a Python object. So it only pushes the entry
on a stack (one compare-and-swap). A thread that holds the GIL later takes the whole stack with one exchange and
releases the buffers: in each send and receive, each read of an account, each sweep of a server. The stack is
safe because it is always taken as a whole: no entry is popped while another one is pushed.

Memory safety. A socket is used only through `_open_handle`, which raises after `close`. An entry is freed
once, by the reaper. A received message is closed once, by its `HeldFrame` or in the call that received it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EAGAIN, EINTR, ENOMEM, ENOTSOCK
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import zmq

from .wire import COPY_BELOW_BYTES as _COPY_BELOW_BYTES

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdlib.h>

    /* Source: zmq.h of libzmq 4: 64 bytes, aligned like a pointer. */
    typedef struct { union { void *align; unsigned char bytes[64]; } u; } headrace_msg;

    typedef struct headrace_entry {
        struct headrace_entry *next;
        Py_buffer view;
        PyObject *ended;  /* the deque of the account for sent parts, or NULL */
        PyObject *owner;
        Py_ssize_t counted;  /* bytes that the part counts in the account */
    } headrace_entry;

    typedef struct {
        int (*init)(headrace_msg *);
        int (*init_size)(headrace_msg *, size_t);
        int (*init_data)(headrace_msg *, void *, size_t, void (*)(void *, void *), void *);
        int (*send)(headrace_msg *, void *, int);
        int (*recv)(headrace_msg *, void *, int);
        int (*move)(headrace_msg *, headrace_msg *);
        int (*close)(headrace_msg *);
        void *(*data)(headrace_msg *);
        size_t (*size)(headrace_msg *);
        int (*more)(headrace_msg *);
        int (*get)(headrace_msg *, int);
        int (*error)(void);
        const char *(*gets)(headrace_msg *, const char *);
    } headrace_functions;

    static headrace_functions headrace_zmq;
    static void headrace_bind(int slot, size_t address) {
        ((void **)&headrace_zmq)[slot] = (void *)address;
    }
    static headrace_entry *headrace_sent_stack = NULL;

    static void headrace_sent(void *data, void *hint) {
        headrace_entry *entry = (headrace_entry *)hint;
        (void)data;
        entry->next = __atomic_load_n(&headrace_sent_stack, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&headrace_sent_stack, &entry->next, entry, 1,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    }
    static headrace_entry *headrace_take_sent(void) {
        if (__atomic_load_n(&headrace_sent_stack, __ATOMIC_RELAXED) == NULL) return NULL;
        return __atomic_exchange_n(&headrace_sent_stack, (headrace_entry *)NULL, __ATOMIC_ACQUIRE);
    }
    static int headrace_init_held(headrace_msg *message, headrace_entry *entry) {
        return headrace_zmq.init_data(message, entry->view.buf, (size_t)entry->view.len, headrace_sent, entry);
    }
    """
    ctypedef struct headrace_msg:
        pass
    ctypedef struct headrace_entry:
        headrace_entry *next
        Py_buffer view
        PyObject *ended
        PyObject *owner
        Py_ssize_t counted
    ctypedef struct headrace_functions:
        int (*init)(headrace_msg *) noexcept
        int (*init_size)(headrace_msg *, size_t) noexcept
        int (*send)(headrace_msg *, void *, int) noexcept
        int (*recv)(headrace_msg *, void *, int) noexcept
        int (*move)(headrace_msg *, headrace_msg *) noexcept
        int (*close)(headrace_msg *) noexcept
        void *(*data)(headrace_msg *) noexcept
        size_t (*size)(headrace_msg *) noexcept
        int (*more)(headrace_msg *) noexcept
        int (*get)(headrace_msg *, int) noexcept
        int (*error)() noexcept
        const char *(*gets)(headrace_msg *, const char *) noexcept
    headrace_functions headrace_zmq
    headrace_entry *headrace_take_sent() noexcept
    int headrace_init_held(headrace_msg *, headrace_entry *) noexcept

    void headrace_bind(int slot, size_t address) noexcept

# In the order of headrace_functions.
FUNCTIONS = (
    "zmq_msg_init",
    "zmq_msg_init_size",
    "zmq_msg_init_data",
    "zmq_msg_send",
    "zmq_msg_recv",
    "zmq_msg_move",
    "zmq_msg_close",
    "zmq_msg_data",
    "zmq_msg_size",
    "zmq_msg_more",
    "zmq_msg_get",
    "zmq_errno",
    "zmq_msg_gets",
)
cdef enum:
    DONTWAIT = 1
    SNDMORE = 2
    SRCFD = 2
    PART_BYTES = 64  # as in multipart_io
    FEW_PARTS = 16  # messages of at most this many parts are built on the C stack

assert (DONTWAIT, SNDMORE, SRCFD) == (zmq.DONTWAIT, zmq.SNDMORE, zmq.SRCFD), "zmq.h has other numbers"
cdef Py_ssize_t COPY_BELOW_BYTES = _COPY_BELOW_BYTES
cdef bint _is_bound = False


def bind(addresses):
    """Store the addresses of ZeroMQ's functions, in the order of `FUNCTIONS`."""
    global _is_bound
    cdef int slot
    cdef list numbers = [int(address) for address in addresses]
    if len(numbers) != len(FUNCTIONS) or not all(numbers):
        raise ValueError("one address for each of FUNCTIONS")
    for slot in range(len(numbers)):
        headrace_bind(slot, numbers[slot])
    _is_bound = True


def reap():
    """Release every buffer that ZeroMQ has sent; returns their number. Any thread may call it."""
    return _reap()


cdef Py_ssize_t _reap() except -1:
    cdef headrace_entry *entry = headrace_take_sent()
    cdef headrace_entry *done
    cdef Py_ssize_t count = 0
    while entry != NULL:
        done = entry
        entry = entry.next
        count += 1
        if done.ended != NULL:
            # The append to a deque is atomic; the account's own thread subtracts the bytes.
            (<object>done.ended).append((<object>done.owner, done.counted))
            Py_DECREF(<object>done.ended)
            Py_DECREF(<object>done.owner)
        PyBuffer_Release(&done.view)
        free(done)
    return count


cdef object _error(int number):
    return zmq.Again() if number == EAGAIN else zmq.ZMQError(number)


cdef int _prepare(
    headrace_msg *message, object part, object owner, object pending, Py_ssize_t *copied, bint is_last
) except -1:
    """Prepare one part: a small one is copied; a large one is referenced, and counts for its owner until reaped.

    `copied` is the sum of the small parts. If it is large, the last part is referenced and counts for all of them.
    """
    cdef Py_buffer view
    cdef Py_ssize_t size = -1, more = 0
    if PyBytes_CheckExact(part):
        size = PyBytes_GET_SIZE(part)
        if size < COPY_BELOW_BYTES:
            copied[0] += size + PART_BYTES
            if not is_last or copied[0] < COPY_BELOW_BYTES or owner is None:
                return _copy(message, PyBytes_AS_STRING(part), size)
    PyObject_GetBuffer(part, &view, PyBUF_SIMPLE)  # raises for a buffer that is not contiguous
    if view.len < COPY_BELOW_BYTES and size < 0:
        try:
            if is_last and owner is not None:
                # The application may change the buffer, so a copy is referenced.
                part = PyBytes_FromStringAndSize(<char *>view.buf, view.len)
            else:
                copied[0] += view.len + PART_BYTES
                return _copy(message, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return _prepare(message, part, owner, pending, copied, is_last)
    if is_last and copied[0] >= COPY_BELOW_BYTES:
        more = copied[0] if view.len >= COPY_BELOW_BYTES else copied[0] - view.len
    cdef headrace_entry *entry = <headrace_entry *>malloc(sizeof(headrace_entry))
    if entry == NULL:
        PyBuffer_Release(&view)
        raise MemoryError
    entry.view = view
    entry.ended = entry.owner = NULL
    if headrace_init_held(message, entry) != 0:
        PyBuffer_Release(&entry.view)
        free(entry)
        raise MemoryError
    if owner is not None and pending is not None:
        entry.counted = view.len + more
        ended = pending.add(owner, entry.counted)
        Py_INCREF(ended)
        Py_INCREF(owner)
        entry.ended, entry.owner = <PyObject *>ended, <PyObject *>owner
    return 0


cdef int _copy(headrace_msg *message, const void *data, Py_ssize_t size) except -1:
    if headrace_zmq.init_size(message, size) != 0:
        raise MemoryError
    memcpy(headrace_zmq.data(message), data, size)
    return 0


cdef int _send_all(void *handle, headrace_msg *messages, Py_ssize_t count) except -1:
    cdef Py_ssize_t place
    cdef int flags, number
    for place in range(count):
        flags = DONTWAIT if place == count - 1 else DONTWAIT | SNDMORE
        while headrace_zmq.send(&messages[place], handle, flags) < 0:
            number = headrace_zmq.error()
            if number != EINTR:
                raise _error(number)
    return 0


cdef bint _recv(void *handle, headrace_msg *message) except -1:
    """Returns whether a part was received; if not, `message` is empty. Errors: zmq.ZMQError."""
    cdef int number
    headrace_zmq.init(message)
    while headrace_zmq.recv(message, handle, DONTWAIT) < 0:
        number = headrace_zmq.error()
        if number == EAGAIN:
            return False
        if number != EINTR:
            raise _error(number)
    return True


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class HeldFrame:
    """A received part that stays in ZeroMQ's memory: read-only bytes, freed with the last reference."""

    cdef headrace_msg message

    def __cinit__(self):
        headrace_zmq.init(&self.message)

    def __dealloc__(self):
        headrace_zmq.close(&self.message)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(
            view, self, headrace_zmq.data(&self.message), headrace_zmq.size(&self.message), 1, flags
        )


@cython.final
cdef class CompiledMultipart:
    """The messages of one socket; see multipart_io.Multipart."""

    cdef object _socket
    cdef object _pending
    cdef void *_handle
    cdef Py_ssize_t _envelope
    cdef headrace_msg _head  # first part of the last message, from which its file descriptor is read
    cdef int _known_source  # the file descriptor, if the first part is too large to be stored here; else -1
    cdef bint _is_watching
    cdef readonly bint is_cut

    def __cinit__(self, socket, *, Py_ssize_t envelope, pending=None):
        if not _is_bound:
            raise RuntimeError("bind() comes first")
        headrace_zmq.init(&self._head)
        self._known_source = -1
        self._socket = socket
        self._handle = <void *><uintptr_t>socket.underlying
        self._envelope = envelope
        self._pending = pending
        self._is_watching = pending is not None
        self.is_cut = False
        if pending is not None:
            pending.reap = reap

    def __dealloc__(self):
        if _is_bound:
            headrace_zmq.close(&self._head)

    cdef void *_open_handle(self) except NULL:
        if self._handle == NULL:
            raise _error(ENOTSOCK)
        return self._handle

    def reap(self):
        """See multipart_io.Multipart.reap."""
        return _reap()

    def close(self, linger_ms):
        """See multipart_io.Multipart.close."""
        self._handle = NULL
        self._socket.close(linger_ms)
        _reap()

    def source(self):
        """See multipart_io.Multipart.source."""
        return self._known_source if self._known_source >= 0 else headrace_zmq.get(&self._head, SRCFD)

    def user_id(self):
        """See multipart_io.Multipart.user_id."""
        cdef const char *found = NULL
        if self._known_source < 0:
            found = headrace_zmq.gets(&self._head, b"User-Id")
        return "" if found == NULL else (<bytes>found).decode("ascii", "replace")

    def send(self, parts, owner=None):
        """See multipart_io.Multipart.send."""
        cdef void *handle = self._open_handle()
        cdef headrace_msg few[FEW_PARTS]
        cdef headrace_msg *messages = few
        cdef tuple fixed = tuple(parts)
        cdef Py_ssize_t count = len(fixed), ready = 0, copied = 0, place
        _reap()
        if count > FEW_PARTS:
            messages = <headrace_msg *>PyMem_Malloc(count * sizeof(headrace_msg))
            if messages == NULL:
                raise MemoryError
        try:
            for part in fixed:
                _prepare(&messages[ready], part, owner, self._pending, &copied, ready == count - 1)
                ready += 1
            _send_all(handle, messages, count)
        finally:
            # Sent parts are empty messages now; the buffers of the others are released through the stack.
            for place in range(ready):
                headrace_zmq.close(&messages[place])
            if messages != few:
                PyMem_Free(messages)

    def receive(self, Py_ssize_t max_parts):
        """See multipart_io.Multipart.receive."""
        cdef void *handle = self._open_handle()
        cdef headrace_msg message
        cdef Py_ssize_t place = 0
        cdef bint more = True
        cdef list parts = []
        assert not self.is_cut, "the rest of the last message is skipped first"
        _reap()
        while more:
            if place == max_parts:
                self.is_cut = True
                return parts
            if not _recv(handle, &message):
                if place:
                    raise zmq.ZMQError(EAGAIN, "ZeroMQ broke off in the middle of a message")
                return None
            more = headrace_zmq.more(&message)
            try:
                parts.append(self._taken(&message, place))
            except BaseException:
                headrace_zmq.close(&message)
                self.is_cut = more
                raise
            place += 1
        return parts

    def skip(self, Py_ssize_t limit):
        """See multipart_io.Multipart.skip."""
        cdef void *handle = self._open_handle()
        cdef headrace_msg message
        while self.is_cut and limit > 0:
            limit -= 1
            if not _recv(handle, &message):
                raise zmq.ZMQError(EAGAIN, "ZeroMQ broke off in the middle of a message")
            self.is_cut = headrace_zmq.more(&message)
            headrace_zmq.close(&message)
        return not self.is_cut

    cdef object _taken(self, headrace_msg *message, Py_ssize_t place):
        """The received part as a Python object. Afterwards `message` is empty, unless this fails."""
        cdef Py_ssize_t size = headrace_zmq.size(message)
        cdef HeldFrame held
        cdef object part
        if size >= COPY_BELOW_BYTES:
            held = HeldFrame.__new__(HeldFrame)
            if self._is_watching and place == 1:
                self._known_source = headrace_zmq.get(message, SRCFD)
            headrace_zmq.move(&held.message, message)
            return PyMemoryView_FromObject(held)
        part = PyBytes_FromStringAndSize(<char *>headrace_zmq.data(message), size)
        if place >= self._envelope:
            part = PyMemoryView_FromObject(part)
        if self._is_watching and place == 1:
            self._known_source = -1
            headrace_zmq.move(&self._head, message)
        else:
            headrace_zmq.close(message)
        return part
