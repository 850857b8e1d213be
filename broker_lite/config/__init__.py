"""What the broker can be told: keys, each declared once, and where their values come from."""
