"""The web server that REST and the console share: limits, sign-in, clients of users, problem responses."""
