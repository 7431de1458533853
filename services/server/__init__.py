"""Servers without Ray: a process for each, with a config file, for systemd and containers."""
