"""The pipeline: the decoder on its own, and everything that stands on it."""
