"""Entry points: hosts of servers (local, Ray), the command line, the quickstart, benchmarks."""
