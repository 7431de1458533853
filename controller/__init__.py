"""The active controller: the metadata log, the state it makes, the decisions that write it."""
