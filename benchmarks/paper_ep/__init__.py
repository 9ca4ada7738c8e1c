"""The experiment of the paper on convergent expectation propagation."""
