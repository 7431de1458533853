"""Time, waiting, declared configuration, and the event loop shells of cores."""
