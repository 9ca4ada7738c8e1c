"""Pictures of a result: numbers handed to the drawing functions."""
