"""The roof: what is run. Hosts, the command line, the quickstart."""
