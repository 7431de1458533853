"""Interactive queries: reads of the stores of a running application, from other threads and processes."""
