"""The event loop of a storage node: performs the effects of the node core on sockets, files and threads."""
