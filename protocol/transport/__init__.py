"""Messages over ZeroMQ: the router of a server, the connection of a client."""
