"""Responses that are not Gaussian: each row a site, by expectation propagation or Laplace's approximation."""
