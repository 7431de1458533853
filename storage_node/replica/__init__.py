"""What a node does with a partition it holds: leading, waiting, answering."""
