"""What servers and clients measure: declared metrics, their values, and Prometheus' text formats. Pure."""
