"""A small Kafka client on our own wire: for the command line, the tests and the pipeline. It works on any Kafka."""
