"""Numerics of the ridge for yes/no responses: arrays and designs in, frozen dataclasses out."""
