library(pybayesridge)

set.seed(4)
n <- 300
chromosome <- function(threshold) {
  z <- matrix(rnorm(n * 100), n)
  for (j in setdiff(2:100, seq(11, 91, 10))) z[, j] <- 0.97 * z[, j - 1] + sqrt(1 - 0.97^2) * z[, j]
  1 * (z < rep(threshold, each = n))
}
threshold <- qnorm(runif(100, 0.15, 0.5))
loci <- chromosome(threshold) + chromosome(threshold)
colnames(loci) <- sprintf("locus%03d", 1:100)
age <- runif(n, 30, 70)
trait <- 0.02 * age + 0.5 * loci[, 3] - 0.4 * loci[, 48] + rnorm(n)

fit <- spike_slab(x = cbind(loci, age), y = trait, unpenalized = "age", mcse = 0.02)
credible_sets(fit)
select_columns(fit, fdr = 0.1)
