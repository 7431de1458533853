"""Group and transaction coordinators: state machines over partitions of internal topics."""
