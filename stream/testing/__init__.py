"""Tests of stream applications without a cluster."""
