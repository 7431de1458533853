"""The admin client: requests and what they return."""
