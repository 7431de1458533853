"""Traces that go with the record: names, contexts in record headers, and the OpenTelemetry SDK."""
