"""`headrace doctor`: checks of machines and of a cluster, each problem with the command that fixes it.

The gatherers (`*_io.py`, `probe_actor.py`) read facts; the checks are pure functions from facts to findings.
"""
