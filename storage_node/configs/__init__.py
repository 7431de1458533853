"""Keys of the storage node, its log levels, groups and coordinators, and the answers that describe them."""
