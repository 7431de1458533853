"""Messages over ZeroMQ: the server side router, the client side connection."""
