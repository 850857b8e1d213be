"""One file per API key: request, a call to the broker, response."""
