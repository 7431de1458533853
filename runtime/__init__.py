"""Ground floor: time, waiting, declared configuration, and the loop that feeds a core."""
