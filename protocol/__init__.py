"""Messages between processes and formats on disk. Pure except transport/*_io.py."""
