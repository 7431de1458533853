"""The web console: pages about a cluster for operators, and forms that change it."""
