#' Share of variance explained by a ridge
#'
#' Posterior mean, median and credible interval of the share of variance that the penalised columns explain in the
#' sample, \eqn{|g|^2 / (|g|^2 + n \sigma^2)}{|g|^2 / (|g|^2 + n sigma2)}, where \eqn{g} is the contribution of the
#' penalised columns to the linear predictor (with the unpenalised columns projected out) and \eqn{n} the number of
#' rows. With weights the weighted version is used. Unlike R-squared it has a posterior distribution, which accounts for
#' uncertainty in the coefficients and the noise variance and, with `method = "exact"`, in the penalty. Without signal
#' the interval extends to 0. With the other methods it is conditional on the quantities that they fix.
#'
#' For `family = binomial()` it is the share of the latent variance: the noise variance is that of the link, \eqn{\pi^2/3}
#' for the logit and 1 for the probit link, and a priori the share is Beta(1/2, 1/2).
#'
#' @param object A fit of [bayes_ridge()].
#' @param level Probability of the (equal-tailed) interval.
#' @param seed For [set.seed()]; the random number generator of the session is restored. The posterior is computed from
#'   4,000 to 20,000 draws: the Monte Carlo standard error of the probability at a 2.5 % quantile is at most 0.0025.
#' @return A data frame with a row for each target and the columns `mean`, `median`, `lower` and `upper`; `NaN` if the
#'   unpenalised columns fit the response exactly.
#' @references Gelman, Goodrich, Gabry and Vehtari (2019). R-squared for Bayesian regression models. The American
#'   Statistician 73, 307-309.
#' @examplesIf pybayesridge::pybayesridge_available()
#' explained_variance(bayes_ridge(mpg ~ ., data = mtcars))
#' @export
explained_variance <- function(object, level = 0.95, seed = 0) {
  if (!inherits(object, "bayes_ridge")) {
    stop("explained_variance() is for fits of bayes_ridge()", call. = FALSE)
  }
  check_level(level)
  before <- generator_state()
  on.exit(assign(".Random.seed", before, envir = globalenv()))
  set.seed(seed)
  rows <- lapply(seq_along(object$targets), function(i) {
    share <- explained_share(object, i)
    c(mean(share), stats::quantile(share, c(0.5, tails(level)), names = FALSE, na.rm = anyNA(share)))
  })
  out <- as.data.frame(do.call(rbind, rows))
  dimnames(out) <- list(object$targets, c("mean", "median", "lower", "upper"))
  out
}

# Draws of the share of one target, as in ridge/explained.py.
explained_share <- function(object, target) {
  post <- object$posterior
  r <- length(post$s)
  size <- max(4000L, min(20000L, 2^23 %/% max(r, 1L)))
  if (is_binomial(object)) {
    return(latent_share(object, size))
  }
  drawn <- draw_hyperparameters(post, target, size)
  step <- max(1L, 2^18 %/% max(r, 1L))
  fit <- unlist(lapply(seq(1L, size, by = step), function(start) {
    at <- start:min(start + step - 1L, size)
    e <- shrinkage(post$s, drawn$log_t2[at])
    g <- sweep(e, 2L, post$z[, target], "*") + sqrt(drawn$sigma2[at] * e) * matrix(stats::rnorm(length(e)), nrow(e))
    rowSums(g^2)
  }))
  fit / (fit + object$nobs * drawn$sigma2)
}
