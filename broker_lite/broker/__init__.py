"""The join: partitions, coordinators and everything that waits."""
