"""The consumer: fetching ahead, positions, returned records."""
