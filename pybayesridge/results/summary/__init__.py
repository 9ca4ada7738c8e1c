"""Summary tables and their formats."""
