"""The user's arrays and frames become checked arrays with names."""
