"""From runs to results.json, the tables and pictures of docs/BENCHMARKS.md, and the README's table."""
