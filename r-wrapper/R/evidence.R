#' Compare fits by their evidence
#'
#' @param ... Fits of [spike_slab()], named or unnamed, or a list of fits. They must have the same response, rows,
#'   weights and unpenalised columns.
#'   Fits whose evidence has the hyperparameters integrated out (`"exact"`, and `"ep"` unless `hyper = "maximize"`)
#'   cannot be compared with fits whose evidence is at their estimates.
#' @return A data frame with a row for each fit in decreasing order of the evidence: `log_evidence`, `difference` from
#'   the maximum, `probability` (posterior probability for equal prior probabilities), `expected_size`, `converged`,
#'   `evidence_biased`, and for fits by `"exact"` `log_evidence_se`, the Monte Carlo standard error of `log_evidence`.
#' @examplesIf pybayesridge::pybayesridge_available()
#' compare_evidence(
#'   linear = spike_slab(mpg ~ wt + hp, mtcars),
#'   quadratic = spike_slab(mpg ~ poly(wt, 2) + poly(hp, 2), mtcars)
#' )
#' @export
compare_evidence <- function(...) {
  fits <- list(...)
  written <- vapply(as.list(substitute(list(...)))[-1L], deparse1, "")
  if (length(fits) == 1L && is.list(fits[[1L]]) && !inherits(fits[[1L]], "pybayesridge_fit")) {
    fits <- fits[[1L]]
    written <- as.character(seq_along(fits))
  }
  if (!length(fits)) {
    stop("there are no fits to compare", call. = FALSE)
  }
  given <- if (is.null(names(fits))) character(length(fits)) else names(fits)
  names(fits) <- make.unique(ifelse(nzchar(given), given, written))
  odd <- !vapply(fits, inherits, NA, "spike_slab")
  if (any(odd)) {
    stop(paste0("'", names(fits)[odd], "'", collapse = ", "), " not made by spike_slab()", call. = FALSE)
  }
  if (any(vapply(fits, is_binomial, NA))) {
    stop(no_evidence, call. = FALSE)
  }
  exact <- vapply(fits, function(fit) !is.null(fit$log_evidence_se), NA)
  integrated <- vapply(Filter(function(fit) length(fit$learned) > 0L, fits), function(fit) fit$integrated, NA)
  if (any(integrated) && !all(integrated)) {
    stop(
      "evidence with the hyperparameters integrated out (method = \"exact\", or \"ep\" with hyper = \"average\") ",
      "cannot be compared with evidence at their estimates (hyper = \"maximize\", \"damped\", \"pcep\"): fit all alike",
      call. = FALSE
    )
  }
  about <- function(fit) c(fit$nobs, length(fit$posterior$z_at), fit$posterior$y_norm)
  first <- about(fits[[1L]])
  for (name in names(fits)) {
    same <- all(abs(about(fits[[name]]) - first) <= 1e-10 * first)
    if (!same || !identical(fits[[name]]$targets, fits[[1L]]$targets)) {
      stop("the fit '", name, "' is of another response, other rows or other unpenalised columns", call. = FALSE)
    }
    if (fits[[name]]$noise_var == 0) {
      stop(
        "the fit '", name, "' has no evidence: the unpenalised columns fit the response exactly; give noise_var",
        call. = FALSE
      )
    }
  }
  of <- function(what, type) unname(vapply(fits, `[[`, type, what))
  log_evidence <- of("log_evidence", 0)
  difference <- log_evidence - max(log_evidence)
  out <- data.frame(
    row.names = names(fits), log_evidence, difference,
    probability = exp(difference) / sum(exp(difference)),
    expected_size = of("expected_size", 0), converged = of("converged", NA),
    evidence_biased = of("evidence_biased", NA)
  )
  if (any(exact)) {
    out$log_evidence_se <- rep(NA_real_, length(fits))
    out$log_evidence_se[exact] <- vapply(fits[exact], `[[`, 0, "log_evidence_se")
  }
  out[order(-log_evidence), ]
}
