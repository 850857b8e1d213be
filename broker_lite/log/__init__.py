"""One partition's directory: append, read, roll, recover. The only room that touches files; see README.md."""
