"""Arrow columns in the clients: the layout of records, tables to send, record batches to return.

Imported only when used: pyarrow is an extra.
"""
