# Runs the R code of the pages and writes what it prints beside it; `tools/docs-r-outputs` calls this in docs/.
options(width = 88)
pages <- list(
  start = c("read", "ridge", "least_squares", "predict", "select", "terms"),
  r = c("fit", "methods", "predict", "targets", "matrices", "coverage", "binomial", "probabilities", "binomial_selection", "select", "sets", "save", "broom", "bands", "groups", "counts"),
  cases = c("income", "genotypes", "affairs")
)
write.csv(datasets::mtcars, "../pybayesridge/datasets/cars.csv", quote = TRUE)
for (page in names(pages)) {
  env <- new.env()
  for (name in pages[[page]]) {
    path <- file.path(page, paste0(name, ".R"))
    printed <- capture.output(source(path, local = env, echo = FALSE, print.eval = TRUE))
    writeLines(sub(" +$", "", printed), sub("R$", "Rout", path))
  }
}
