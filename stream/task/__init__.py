"""Tasks: one sub-topology over one partition of its topics. Pure: records in, output records and writes
out."""
