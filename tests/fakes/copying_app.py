"""A headrace.stream application that tests run from the command line."""

from headrace import stream, utf8

app = stream.App("copying", key=utf8, value=utf8)
app.stream("orders").to("copies")
