"""Results, predictions and summaries."""
