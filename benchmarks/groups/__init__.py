"""Groups of cells by workload, with the comparisons drawn from them. Pure."""
