"""Sockets: listeners, connections, frames, the order of replies, and the limits of all that."""
