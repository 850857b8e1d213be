"""Bytes to messages and back: Kafka's protocol, with no sockets, files or clocks."""
