"""Columns of Arrow in and out of the clients: the one layout, tables to send, batches to hand out.

Nothing here is imported before it is asked for: pyarrow is an extra.
"""
