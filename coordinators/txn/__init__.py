"""The transaction coordinator: transactional ids, their states, and transaction markers."""
