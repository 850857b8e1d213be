"""What the tests share: a broker as a process, and the parts that `make test` is made of."""
