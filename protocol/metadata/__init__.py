"""The cluster's metadata: the records of the metadata log and the immutable image they make."""
