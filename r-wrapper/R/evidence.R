#' Compare fits by their evidence
#'
#' @param ... Fits of [spike_slab()] or of [bayes_ridge()], but not of both, named or unnamed, or a list of fits. They
#'   must have one response, and the same response, rows, weights and unpenalised columns. Fits whose evidence has the
#'   hyperparameters integrated out (a selection by `"exact"`, or by `"ep"` unless `hyper = "maximize"`; a ridge by all
#'   methods except `"fixed"`) cannot be compared with fits whose evidence is at their estimates or at a given penalty.
#'   Ridges must also agree in `family` (with its link, and `flat_in`), in `dof` and in whether the noise variance is known.
#' @return A data frame with a row for each fit in decreasing order of the evidence: `log_evidence` (of a ridge its
#'   `log_marginal`), `difference` from the maximum, `probability` (posterior probability for equal prior probabilities),
#'   `expected_size` (of a ridge `df_model`, the effective degrees of freedom), `converged`, for selections
#'   `evidence_biased`, and for fits by `"exact"` `log_evidence_se`, the Monte Carlo standard error of `log_evidence`. For
#'   binomial and Poisson ridges the evidence is that of the approximation (expectation propagation or Laplace).
#' @examplesIf pybayesridge::pybayesridge_available()
#' compare_evidence(
#'   linear = spike_slab(mpg ~ wt + hp, mtcars),
#'   quadratic = spike_slab(mpg ~ poly(wt, 2) + poly(hp, 2), mtcars)
#' )
#' compare_evidence(bayes_ridge(mpg ~ wt, mtcars), bayes_ridge(mpg ~ wt + hp, mtcars))
#' @export
compare_evidence <- function(...) {
  fits <- named_fits(list(...), substitute(list(...)))
  for (name in names(fits)) {
    refuse_pooled(fits[[name]], "compare_evidence")
    if (!inherits(fits[[name]], "pybayesridge_fit")) {
      stop("'", name, "' is ", kind_of(fits[[name]]), ", not a fit of spike_slab() or bayes_ridge()", call. = FALSE)
    }
  }
  selection <- vapply(fits, inherits, NA, "spike_slab")
  if (any(selection) && !all(selection)) {
    stop(
      "the evidence of a fit of spike_slab() cannot be compared with that of a fit of bayes_ridge(): compare those of each",
      call. = FALSE
    )
  }
  for (fit in fits) {
    if (is.null(log_evidence(fit))) stop(why_no_evidence(fit), call. = FALSE)
  }
  if (selection[1L]) same_integration(fits) else same_ridges(fits)
  same_response(fits)
  evidence_table(fits, selection[1L])
}

# One value for all fits, or an error: `value` of a fit, and the name of what it is.
alike_in <- function(fits, value, what) {
  first <- value(fits[[1L]])
  for (name in names(fits)) {
    if (!identical(value(fits[[name]]), first)) {
      stop(
        "the fit '", name, "' differs from '", names(fits)[1L], "' in ", what, ", so that their evidence cannot be compared: ",
        "fit all alike",
        call. = FALSE
      )
    }
  }
}

# Selections: hyperparameters integrated out by all, or by none.
same_integration <- function(fits) {
  alike_in(fits, function(fit) fit$link, "its family")
  integrated <- vapply(Filter(function(fit) length(fit$learned) > 0L, fits), function(fit) fit$integrated, NA)
  if (any(integrated) && !all(integrated)) {
    stop(
      "evidence with the hyperparameters integrated out (method = \"exact\", or \"ep\" with hyper = \"average\") ",
      "cannot be compared with evidence at their estimates (hyper = \"maximize\", \"damped\", \"pcep\"): fit all alike",
      call. = FALSE
    )
  }
}

same_ridges <- function(fits) {
  many <- vapply(fits, function(fit) length(fit$targets) > 1L, NA)
  if (any(many)) {
    stop("the fit '", names(fits)[many][1L], "' has several targets: fit each on its own to compare its evidence", call. = FALSE)
  }
  alike_in(fits, function(fit) c(fit$distribution, fit$link, fit$settings$model$flat_in), "its family")
  alike_in(fits, function(fit) fit$method == "fixed", "whether the penalty is given (method = \"fixed\") or integrated out")
  alike_in(fits, function(fit) fit$dof, "'dof'")
  alike_in(fits, function(fit) !is.null(fit$known_sigma2), "whether the noise variance is known ('sigma2')")
}

# What fits of one response, the same rows and the same unpenalised columns have in common.
same_response <- function(fits) {
  about <- function(fit) {
    unpenalized <- length(fit$posterior$z_at)
    if (family_of(fit)$noise) {
      return(c(fit$nobs, unpenalized, fit$posterior$y_norm))
    }
    check_rows(fit)
    rows <- cbind(family_of(fit)$responses(fit), fit$trials, fit$weights)
    c(fit$nobs, unpenalized, rows)
  }
  names_of <- function(fit) if (!family_of(fit)$noise) coefficient_names(fit)[fit$posterior$z_at]
  first <- about(fits[[1L]])
  for (name in names(fits)) {
    mine <- about(fits[[name]])
    same <- length(mine) == length(first) && all(abs(mine - first) <= 1e-10 * pmax(abs(first), !family_of(fits[[1L]])$noise))
    same <- same && identical(names_of(fits[[name]]), names_of(fits[[1L]]))
    if (!same || !identical(fits[[name]]$targets, fits[[1L]]$targets)) {
      stop("the fit '", name, "' is of another response, other rows or other unpenalised columns", call. = FALSE)
    }
    if (family_of(fits[[name]])$noise && noise_variance(fits[[name]]) == 0) {
      stop(
        "the fit '", name, "' has no evidence: the unpenalised columns fit the response exactly; give ",
        if (inherits(fits[[name]], "spike_slab")) "noise_var" else "sigma2",
        call. = FALSE
      )
    }
    if (is.na(log_evidence(fits[[name]])) || is.infinite(log_evidence(fits[[name]]))) {
      stop("the fit '", name, "' has no evidence: its log marginal likelihood is ", log_evidence(fits[[name]]), call. = FALSE)
    }
  }
}

evidence_table <- function(fits, selection) {
  of <- function(what, type) unname(vapply(fits, `[[`, type, what))
  log_evidence <- unname(vapply(fits, log_evidence, 0))
  difference <- log_evidence - max(log_evidence)
  out <- data.frame(
    row.names = names(fits), log_evidence, difference,
    probability = exp(difference) / sum(exp(difference))
  )
  out[[if (selection) "expected_size" else "df_model"]] <- of(if (selection) "expected_size" else "df_model", 0)
  out$converged <- of("converged", NA)
  if (selection) out$evidence_biased <- of("evidence_biased", NA)
  exact <- vapply(fits, function(fit) !is.null(fit$log_evidence_se), NA)
  if (any(exact)) {
    out$log_evidence_se <- rep(NA_real_, length(fits))
    out$log_evidence_se[exact] <- vapply(fits[exact], `[[`, 0, "log_evidence_se")
  }
  posterior_table(out[order(-log_evidence), ])
}
