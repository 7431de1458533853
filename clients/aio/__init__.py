"""The asyncio faces of the clients: the engines on the caller's own event loop; public as `headrace.aio`."""
