"""The asyncio clients, on the caller's event loop; public as `headrace.aio`."""
