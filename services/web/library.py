"""The optional libraries of the web server."""

from __future__ import annotations

from ...runtime.extras import missing_extra


def check_library(purpose: str, extra: str = "http") -> None:
    """Errors: ImportError with the pip command if the libraries of the server are missing."""
    try:
        import h11  # noqa: F401 - with uvicorn
        import starlette  # noqa: F401 - the application of the console
        import uvicorn  # noqa: F401 - the server
    except ImportError as error:
        raise missing_extra(error, purpose, extra) from error
