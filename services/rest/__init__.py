"""REST: the paths of Confluent's REST proxy, versions 2 and 3, and reading and tailing of topics."""
