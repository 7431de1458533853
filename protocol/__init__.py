"""Ground floor: what travels between processes and what is stored. Pure but for transport/*_io.py."""
