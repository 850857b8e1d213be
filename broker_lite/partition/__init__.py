"""The truth about one partition: its four offsets, who wrote what, and which transactions are open."""
