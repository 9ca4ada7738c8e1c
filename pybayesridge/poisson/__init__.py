"""The part of the numerics that is of counts alone."""
