"""The file layer: the interface through which a log uses a disk, and its implementation over POSIX."""
