"""Requests as fast as a Kafka listener takes them, until the end of this process: `request_flood.py PORT`.

ApiVersions without pause over a few connections, whose responses are dropped: cheap here, work for the node.
"""

import os
import selectors
import socket
import struct
import sys

CONNECTIONS = 4
_HEAD = struct.pack(">hhih", 18, 0, 1, 1) + b"x"
REQUESTS = (struct.pack(">i", len(_HEAD)) + _HEAD) * 1_000


def main(port: int) -> None:
    os.nice(10)
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            made = socket.create_connection(("127.0.0.1", port))
            made.setblocking(False)
            selector.register(made, both, REQUESTS)
        while True:
            for key, events in selector.select():
                connection, left = key.fileobj, key.data
                if events & selectors.EVENT_READ and not connection.recv(1 << 20):
                    return
                if events & selectors.EVENT_WRITE:
                    sent = connection.send(left)
                    selector.modify(connection, both, left[sent:] or REQUESTS)


if __name__ == "__main__":
    main(int(sys.argv[1]))
