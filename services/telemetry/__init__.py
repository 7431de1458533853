"""Exporters of metrics: Prometheus, OTLP, Ray; with the rules and dashboards that go with them."""
