"""What the user calls."""
