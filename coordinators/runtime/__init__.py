"""What every coordinator shares: decide, append, apply, answer."""
