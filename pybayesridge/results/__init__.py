"""Results, their labelled wrappers, predictions and summaries."""
