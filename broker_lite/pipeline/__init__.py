"""Topics as tables: segments read into Arrow, Spark data sources on top, and the jobs that use them."""
