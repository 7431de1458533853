"""Runs one call of a user's async function on the event loop: its attempts, pauses and timeout."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from ..errors import StreamsError

if TYPE_CHECKING:
    from .async_calls import AsyncCall


async def run_call(call: AsyncCall) -> None:
    """Set the result or the error of a call. Errors: CancelledError if the executor cancels it."""
    timeout_ms = call.policy.timeout_ms
    scope = asyncio.timeout(timeout_ms / 1000)
    try:
        async with scope:
            call.result = await _result(call)
            call.error = None
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        call.error = StreamsError("the async function was cancelled, by something that it awaited")
        call.error.__cause__ = error
    except TimeoutError as error:
        last, call.error = call.error, error
        if scope.expired():
            call.error = TimeoutError(f"the async function had no result within {timeout_ms} ms")
            call.error.__cause__ = last  # of the last attempt
    except BaseException as error:  # noqa: BLE001 -- the task raises it
        call.error = error


async def _result(call: AsyncCall) -> Any:
    policy = call.policy
    for delay_ms in policy.delays_ms:
        try:
            return await _attempt(call)
        except policy.retry_on as error:
            call.error = error
            await asyncio.sleep(delay_ms / 1000)
    return await _attempt(call)


async def _attempt(call: AsyncCall) -> Any:
    result = call.function(*call.arguments)
    if not inspect.isawaitable(result):
        raise TypeError(f"the function must be async, it returned {type(result).__name__}")
    return await result
