"""Requests and responses as MessagePack arrays, with the names and numbers of Kafka's APIs."""
