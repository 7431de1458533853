"""An application of headrace.stream for command lines."""

from headrace import stream, utf8

app = stream.App("copying", key=utf8, value=utf8)
app.stream("orders").to("copies")
