"""Data that are not one matrix in memory."""
