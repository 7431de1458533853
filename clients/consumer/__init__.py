"""The consumer: fetching ahead, positions, handing out."""
