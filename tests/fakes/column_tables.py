"""Tables of any rows, for Hypothesis: (timestamp, key, value, headers)."""

from hypothesis import strategies as st

nullable = st.none() | st.binary(max_size=200)
header_rows = st.none() | st.lists(st.tuples(st.sampled_from(["", "h", "é"]), nullable), max_size=4)
timestamps = st.integers(-1, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
tables = st.lists(st.tuples(timestamps, nullable, nullable, header_rows), max_size=30)
