"""Runs in a separate process: connections break in the middle of large messages while one end closes.

Arguments: the closing end (the router by "close" or "stop", or the "client"), rounds. ZeroMQ aborts the
process if the break and the close of the socket race; otherwise the program prints "alive".
"""

import asyncio
import os
import socket as sockets
import sys
import threading

import zmq
from headrace.protocol.messages.registry import FETCH, PRODUCE
from headrace.protocol.transport import wire
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.router_io import RouterLimits
from transport_kit import FETCH_ONE, PRODUCE_ONE, RawPeer, Served, run, until

FRAMES = 25
FRAME = bytes(64_000)  # few large frames: as many messages are cut as with many small frames
ANSWERS = 40
PEERS = 4
LINGER_MS = 20


async def end_clients() -> None:
    """Clients close with half-sent requests while another thread breaks their connections."""
    served = Served()
    served.router.start()
    clients = [await served.connect() for _ in range(PEERS)]
    for client in clients:
        for _ in range(ANSWERS):
            client.send(PRODUCE, PRODUCE_ONE, (FRAME,) * FRAMES)
    ends = [sockets.socket(fileno=os.dup(peer.descriptor)) for peer in served.router._peers]

    def break_off() -> None:
        for end in ends:
            end.shutdown(sockets.SHUT_RDWR)
            end.close()

    breaking = threading.Thread(target=break_off)
    breaking.start()
    for client in clients:
        client.close()
    await asyncio.to_thread(breaking.join)
    served.router.close()


async def end_router(way: str) -> None:
    """Peers that do not read responses are closed by another thread while the router closes."""
    served = Served(RouterLimits(max_in_flight=64))
    served.is_holding = True
    served.router.start()
    peers = []
    for _ in range(PEERS):
        peer = RawPeer(served.router.port, RCVHWM=1, RCVBUF=4096)
        await peer.shake_hands()
        for number in range(ANSWERS):
            peer.ask(FETCH.key, wire.encode(FETCH_ONE), number=number)
        peers.append(peer)
    await until(lambda: len(served.held) == ANSWERS * PEERS)
    for request in served.held:
        served.router.reply(request, b"", (FRAME,) * FRAMES)

    def leave() -> None:
        for peer in peers:
            peer.socket.disable_monitor()
            peer.events.close(0)
            peer.socket.close(0)

    leaving = threading.Thread(target=leave)
    if way == "close":
        leaving.start()
        served.router.close()
    else:
        # near the end of the linger time, when the router ends connections that are not read
        asyncio.get_running_loop().call_later(LINGER_MS / 1000, leaving.start)
        await served.router.stop(LINGER_MS)
        await until(lambda: leaving.ident is not None)
    await asyncio.to_thread(leaving.join)


def main() -> None:
    """Run the rounds of one closing end."""
    way, rounds = sys.argv[1], int(sys.argv[2])
    for _ in range(rounds):
        run(end_clients() if way == "client" else end_router(way))
    # Order: when a last socket works, ZeroMQ's threads have completed all earlier work.
    with shared_context().socket(zmq.PAIR) as pair:
        pair.bind("inproc://closing-stress")
    sys.stdout.write("alive\n")


if __name__ == "__main__":
    main()
