# Runs the vignette's code, with Python, and writes the vignette that is shipped: checking it needs no Python.
# From the folder vignettes: Rscript precompute.R
options(width = 90)
knitr::knit("pybayesridge.Rmd.orig", "pybayesridge.Rmd", quiet = TRUE)
