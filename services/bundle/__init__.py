"""`headrace debug bundle`: an archive of what a maintainer needs, without secrets, bounded in size."""
