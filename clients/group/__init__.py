"""Consumer groups: membership in both protocols, assignors, commits. Cores are pure, shells end in `_io`."""
