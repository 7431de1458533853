"""Requests and responses as typed MessagePack arrays, named and numbered like Kafka's APIs."""
