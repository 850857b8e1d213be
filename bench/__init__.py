"""How fast, how small, how soon: broker-lite and Apache Kafka on one machine in one run."""
