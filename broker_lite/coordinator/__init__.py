"""Groups and transactions as pure decisions: told the time, no files, nothing awaited."""
