"""The synchronous clients, with an event loop on an IO thread; all but the producer are made from
clients/aio."""
