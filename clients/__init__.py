"""The client wing: producer, consumer and admin, sync and asyncio."""
