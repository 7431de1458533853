"""ZMTP 3.1 by hand: what a ZeroMQ socket of a well-behaved library would never put on the wire."""

import socket

GREETING_BYTES = 64
MORE, LONG, COMMAND = 1, 2, 4


def greeting(mechanism: str = "NULL", *, minor: int = 1) -> bytes:
    """The first bytes of each side."""
    signature = b"\xff" + bytes(8) + b"\x7f"
    return signature + bytes((3, minor)) + mechanism.encode().ljust(20, b"\0") + bytes(32)


def frame(data: bytes, flags: int = 0) -> bytes:
    """A part of a message, or a command."""
    if len(data) > 255:
        return bytes((flags | LONG,)) + len(data).to_bytes(8, "big") + data
    return bytes((flags, len(data))) + data


def message(*parts: bytes) -> bytes:
    """A whole message."""
    *first, last = parts
    return b"".join(frame(part, MORE) for part in first) + frame(last)


def ready(**properties: bytes) -> bytes:
    """The command that ends a handshake without security; names have `_` for `-`."""
    names = {"Socket_Type": b"DEALER", **properties}
    data = b"".join(
        bytes((len(name),)) + name.replace("_", "-").encode() + len(value).to_bytes(4, "big") + value
        for name, value in names.items()
    )
    return frame(b"\x05READY" + data, COMMAND)


def connected(port: int, *data: bytes) -> socket.socket:
    """A TCP connection that has sent these bytes, and does not block any longer."""
    made = socket.create_connection(("127.0.0.1", port), 60)
    made.sendall(b"".join(data))
    made.setblocking(False)
    return made


def dealer(port: int, *data: bytes, **properties: bytes) -> socket.socket:
    """As `connected`, behind a handshake without security: ZeroMQ takes no message before it has answered."""
    made = connected(port, greeting(), ready(**properties))
    made.setblocking(True)
    received = b""
    while b"\x05READY" not in received:
        received += made.recv(1)
    made.sendall(b"".join(data))
    made.setblocking(False)
    return made
