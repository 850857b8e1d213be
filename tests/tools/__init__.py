"""Apache Kafka's command line tools, every verb that makes sense on one broker."""
