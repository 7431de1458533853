"""Group and transaction coordinators: state machines whose memory is the log of their partition."""
