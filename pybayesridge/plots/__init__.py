"""Drawing: arrays and labels in, a matplotlib Axes out. Matplotlib is imported when something is drawn."""
