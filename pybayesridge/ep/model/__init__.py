"""The spike-and-slab model: data, prior, Gaussian side."""
