"""Workers of an application on Ray: where they run, what replaces them, how many there are."""
