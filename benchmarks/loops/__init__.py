"""What the client processes run: the timed loops, of one shape for both systems."""
