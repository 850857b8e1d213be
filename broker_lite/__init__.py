"""A Kafka broker in Python for tests and laptops."""

__version__ = "0.1.0"
