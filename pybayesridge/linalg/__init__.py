"""Linear algebra shared by the numerics."""
