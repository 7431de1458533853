"""`python -m headrace` is the `headrace` command."""

from .services.cli.main import main

if __name__ == "__main__":
    main()
