library(testthat)
library(pybayesridge)

test_check("pybayesridge")
