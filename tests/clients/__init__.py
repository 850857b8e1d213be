"""The client matrix: real clients of other projects, one common list of scenarios."""
