#' Leave-one-out scores for 'loo'
#'
#' `loo()` and `loo_compare()` of the package 'loo': the expected log predictive density of each row given the other rows.
#' It is computed from the posterior of the fit in closed form and not by importance sampling, so that there are no Pareto k
#' values.
#'
#' @details With `family = gaussian()` the score of a row equals that of fitting without the row, with the standardisation and
#'   the prior of the fit to all rows. Coefficients and a noise variance that is estimated are integrated out for each penalty
#'   of the posterior, or for each set of columns that the fit keeps, and these are weighted anew for each row. If the method
#'   holds the penalty at an estimate (`"em"`, `"loocv"`, `"gcv"`), it stays at the estimate from all rows, and the score is
#'   slightly optimistic. The same holds for [spike_slab()] by expectation propagation, whose approximation of the prior is
#'   that of the fit to all rows, and for its hyperparameters with `hyper = "maximize"`, `"damped"` and `"pcep"`.
#'
#'   For [spike_slab()] with `method = "exact"` Python fits the model again and computes the scores: it looks for sets of columns
#'   that matter only without a row, of which the fit has none. Without Python these are left out, with a warning. All other
#'   fits require Python only for `by`.
#'
#'   The rows are required: those kept by the fit (see `model` in [bayes_ridge()]) or those named in its call. A warning is
#'   given if the posterior was sampled and the score of a row rests on fewer than 100 effective draws, or on an approximation by
#'   expectation propagation that a row of high leverage can change, and an error is raised
#'   if the other rows do not determine the prediction of a row, or if without it the approximation by expectation propagation is
#'   no distribution.
#'
#'   With `family = binomial()` and `poisson()` the scores are logarithms of probabilities, of all trials of a row together. With other
#'   families than `gaussian()` they are as
#'   approximate as the fit, except for [spike_slab()] by `method = "exact"`. Weights must be whole numbers: a row of weight w
#'   counts as w rows, of each of which one is left out.
#'
#'   Standard errors are those of the package 'loo', with the number of rows less one as the denominator of the variance; so are
#'   those of the Python package.
#'
#'   With `by` whole groups of rows are left out in turn, and the joint density of the rows of each group is computed by Python: how
#'   well new groups are predicted, whose effects are then drawn from the population of groups. `overlap` is the part of the
#'   posterior of the variances of all rows that is left without the group. For responses that are not Gaussian, `n_eff` is the
#'   effective number of points by which a group's linear predictors are integrated over, and `mcse` the standard error that follows.
#'
#' @param x A fit of [bayes_ridge()] or [spike_slab()].
#' @param target Name or position of a target, if there are several.
#' @param by Groups of rows: the name of a variable of the formula, such as `"g"` with `(1 | g)`, or a vector with a label for
#'   each row of the fit. For [bayes_ridge()].
#' @param ... Not used: further arguments raise an error.
#' @return A list of class `"loo"`: `estimates` and `pointwise` with `elpd_loo`, `p_loo` and `looic`. If the posterior was
#'   sampled, `n_eff` contains the effective number of draws of each row, and `mcse` the Monte Carlo standard error of its score where Python
#'   computed it.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("loo", quietly = TRUE)
#' loo::loo(bayes_ridge(mpg ~ wt + hp, data = mtcars))
#' loo::loo_compare(list(
#'   ridge = loo::loo(bayes_ridge(mpg ~ ., data = mtcars)),
#'   selection = loo::loo(spike_slab(mpg ~ ., data = mtcars))
#' ))
#' @exportS3Method loo::loo
loo.pybayesridge_fit <- function(x, target = NULL, by = NULL, ...) {
  refuse_dots("loo", ...)
  check_rows(x)
  if (is.null(target) && length(x$targets) > 1L) {
    stop("the fit has several targets: name one by 'target'", call. = FALSE)
  }
  at <- if (is.null(target)) 1L else target_position(x, target)
  env <- parent.frame()
  found <- if (!is.null(by)) {
    groups_left_out(x, at, by, env)
  } else if (has_sets(x$posterior)) {
    sets_left_out(x, at, env)
  } else {
    family_of(x)$left_out(x, at, env)
  }
  pointwise <- cbind(elpd_loo = found$elpd, p_loo = found$within - found$elpd, looic = -2 * found$elpd)
  estimates <- cbind(Estimate = colSums(pointwise), SE = sqrt(nrow(pointwise) * apply(pointwise, 2L, stats::var)))
  out <- list(estimates = estimates, pointwise = pointwise)
  out$n_eff <- found$n_eff
  out$mcse <- found$mcse
  if (!is.null(by)) {
    rownames(out$pointwise) <- found$labels
    out$overlap <- stats::setNames(found$overlap, found$labels)
  }
  structure(c(out, named_estimates(estimates)), dims = c(NA_integer_, nrow(pointwise)), class = c("pybayesridge_loo", "loo"))
}

#' @exportS3Method loo::print_dims
print_dims.pybayesridge_loo <- function(x, ...) {
  what <- if (is.null(x$overlap)) "rows" else "groups of rows"
  cat("Leave-one-out predictions of", attr(x, "dims")[2L], paste0(what, ", each predicted from the others.\n"))
}

# Python predicts groups of rows together.
groups_left_out <- function(x, target, by, env) {
  if (is.character(by) && length(by) == 1L && x$nobs > 1L) {
    data <- original_data(x, NULL, "loo() with 'by'")
    if (!by %in% names(data)) {
      stop("'by' names '", by, "', which is no variable of the formula: give a label for each row", call. = FALSE)
    }
    by <- data[[by]]
  }
  if (length(by) != x$nobs || anyNA(by)) {
    stop("'by' must name a variable or have a label for each of the ", x$nobs, " rows of the fit", call. = FALSE)
  }
  lapply(ask_python("loo", x, env, list(target = x$targets[target], by = as.list(as.character(by)))), as.vector)
}

# What older versions of 'loo' keep beside the matrix.
named_estimates <- function(estimates) {
  as.list(c(estimates[, "Estimate"], stats::setNames(estimates[, "SE"], paste0("se_", rownames(estimates)))))
}

# Below this share the variance of a row that its own response does not determine is lost in rounding errors.
least_slack <- 1e-8

leverage_one <- "it is fitted exactly whatever its response is (leverage 1)"

# Sites of negative precision can need the row.
improper <- paste0(
  "without it the approximation by expectation propagation, which is made for all rows, is no distribution for some ",
  "hyperparameters: use method = \"exact\", or fit without this row to predict it"
)

# The other rows are fitted exactly if without a row at most this share of the residual sum of squares is left; as in Python.
exact_share <- 1e-13

# A row is in doubt where, of what the unpenalised columns leave it, less than this share is left at nodes with sites of negative
# precision that have more than this weight; as in Python.
doubtful_slack <- 0.5
doubtful_weight <- 0.01

# Scores that rest on fewer effective draws are in doubt; as in Python.
fewest_draws <- 100

# Python also looks for sets of columns that matter only without a row, of which the fit has none. A row that stands for
# copies is a row for each of them.
sets_left_out <- function(x, target, env) {
  if (pybayesridge_available()) {
    answer <- lapply(ask_python("loo", x, env, list(target = x$targets[target])), as.vector)
    if (family_of(x)$noise) return(answer)
    copies <- whole_copies(x)
    summed <- intersect(names(answer), c("elpd", "mcse"))
    answer[summed] <- lapply(answer[summed], `/`, copies)
    return(lapply(answer, rep, copies))
  }
  warning(
    "sets of columns that matter only without a row are looked for by Python alone, which is not available here: the scores ",
    "of rows that alone speak for or against a column may be inaccurate",
    call. = FALSE
  )
  family_of(x)$left_out(x, target, env)
}

# Every row predicted from the others (posterior/left_out.py). Given a component of the posterior (a penalty, a set of
# columns) with the leverage h of a row and its residual e, the row has without itself the residual d = e / (1 - h), the
# variance s2 / (1 - h), and the other rows the residual sum of squares R - d^2 (1 - h). Without the row the weights of the
# components are divided by its densities, so that its own is their harmonic mean. Densities of weighted rows are those of
# sqrt(w) y. Log densities without the row (`elpd`) and with it (`within`), n each.
left_out_rows <- function(object, env, target) {
  post <- object$posterior
  root_w <- sqrt((object$weights %||% rep(1, object$nobs)) / object$weight_mean)
  own <- own_functionals(object, root_w, env)
  n <- nrow(own$z)
  y <- family_of(object)$responses(object)[, target]
  y <- unname(y - drop(own$z %*% post$y_on_z[, target])) / post$y_norm[target]
  used <- components(post, target, floor = 0)
  noise <- post$noise[used$keep, if (ncol(post$noise) > 1L) target else 1L]
  labels <- own$labels %||% seq_len(n)
  law <- noise_law(post, noise)
  negative <- post[["negative"]] %||% numeric(nrow(post$weight))
  parts <- lapply(chunks(n, elements / nrow(post$weight)), function(at) {
    f <- own$of(at)
    each <- if (in_row_space(post)) {
      slack_in_row_space(f, post, target, used, y[at], root_w[at], n)
    } else if (layout_of(post) == "bands") {
      slack_of_bands(f, post, used, y[at], root_w[at], n)
    } else {
      slack_of_mixture(mixture_of(f, used, post), used, y[at], root_w[at])
    }
    # Where sites are held, as by expectation propagation, a row may fix a component.
    held <- !has_functionals(post) && !has_sets(post)
    known <- held & 1 - root_w[at]^2 * f$leverage > least_slack
    refuse_rows(each$slack > each$least | known, labels[at], leverage_one)
    refuse_rows(each$slack > 0, labels[at], improper)
    found <- given_components(used$weight, each$residual / each$slack, each$slack, law, labels[at])
    found$doubtful <- held & drop((each$slack < doubtful_slack * (1 - root_w[at]^2 * f$leverage)) %*% (used$weight * negative[used$keep])) > doubtful_weight
    unit <- log(post$y_norm[target] / root_w[at])
    cbind(found$elpd - unit, found$within - unit, found$efficiency, found$doubtful)
  })
  found <- do.call(rbind, parts)
  out <- list(elpd = found[, 1L], within = found[, 2L])
  tell_doubtful(labels[found[, 4L] > 0])
  draws <- effective_draws(object)
  if (is.finite(draws)) {
    out$n_eff <- told_draws(draws * found[, 3L], labels)
  }
  out
}

# The rows of a fit: `z`, their unpenalised columns, their `labels`, and a function that gives the functionals of some. Where the
# posterior has products with the rows in place of singular vectors these have the coordinates of the rows, too.
own_functionals <- function(object, root_w, env) {
  post <- object$posterior
  if (!is.null(post[["half"]])) {
    z <- unpenalized_columns(post)
    flat <- z %*% post$z_root
    whole <- list(x = post$half * rep(post$s^2, each = nrow(z)) / root_w, leverage = rowSums(flat^2))
    return(list(z = z, labels = rownames(post$data$x), of = function(at) some_functionals(whole, at)))
  }
  x <- own_rows(object, env)$x
  split <- split_rows(object, x)
  of <- function(at) functionals(post, split$x[at, , drop = FALSE], split$z[at, , drop = FALSE])
  list(z = split$z, labels = rownames(x), of = of)
}

# A warning on rows without which expectation propagation might have found something else; as in Python.
tell_doubtful <- function(labels) {
  if (length(labels)) {
    warning(
      "the leave-one-out predictions of ", length(labels), " row(s) may be inaccurate: ",
      paste0("'", utils::head(labels, 5L), "'", collapse = ", "), ". Their leverage is high, and without them the approximation by ",
      "expectation propagation, which is made for all rows, can be very different: use method = \"exact\", or fit without these ",
      "rows to predict them",
      call. = FALSE
    )
  }
}

# Effective draws of the predictions of rows, with a warning where they are few.
told_draws <- function(draws, labels) {
  doubtful <- unique(labels[draws < fewest_draws])
  if (length(doubtful)) {
    warning(
      "the leave-one-out predictions of ", length(doubtful), " row(s) rest on fewer than ", fewest_draws, " effective draws (",
      paste0("'", utils::head(doubtful, 5L), "'", collapse = ", "), "): their scores may be inaccurate",
      call. = FALSE
    )
  }
  draws
}

# Residuals of rows given each of the components and 1 less their leverages (m x K), and the `least` of the latter that is more than
# rounding.
slack_of_mixture <- function(each, parts, y, root_w) {
  list(
    least = least_slack, slack = 1 - each$scale2 / rep(parts$noise, each = length(y)) * root_w^2,
    residual = root_w * (y - each$where)
  )
}

# The same in the row space, without differences where the `n` rows span everything.
slack_in_row_space <- function(f, post, target, parts, y, root_w, n) {
  slack_of_spectrum(f$x, post$s, post$z[, target], post$log_t2[parts$keep, target], f$leverage, y, root_w, n, length(post$z_at))
}

# The same given singular values `s`, responses `z` in the left singular vectors, and the coordinates `x` of the rows; `k` is the
# number of unpenalised columns.
slack_of_spectrum <- function(x, s, z, log_t2, leverage, y, root_w, n, k) {
  u <- root_w * x / rep(s, each = nrow(x))
  left <- complement(s, log_t2)
  whole <- length(s) + k >= n
  share <- if (whole) numeric(length(y)) else 1 - root_w^2 * leverage - rowSums(u^2)
  rest <- if (whole) numeric(length(y)) else root_w * y - drop(u %*% z)
  list(
    least = if (whole) 0 else least_slack, slack = tcrossprod(u^2, left) + pmax(share, 0),
    residual = tcrossprod(u * rep(z, each = nrow(u)), left) + rest
  )
}

# The noise of the components: degrees of freedom `count` where it is estimated (`at_mode` at the mode R / (N + 2), else
# integrated out), residual sums of squares `rss`, or the `known` variances.
noise_law <- function(post, noise) {
  if (!all(noise > 0)) {
    stop("the fit has no leave-one-out scores: the response is fitted without noise", call. = FALSE)
  }
  known <- if (has_functionals(post)) !is.null(post$prior_noise) else is.infinite(post$df)
  if (known) {
    return(list(known = TRUE, variance = noise))
  }
  count <- post$prior_count %||% post$df
  at_mode <- is.infinite(post$df)
  if (!at_mode && count <= 1) {
    stop(
      "the fit has no leave-one-out scores: without a row no degrees of freedom are left to estimate the noise variance",
      call. = FALSE
    )
  }
  list(known = FALSE, at_mode = at_mode, count = count, rss = noise * if (at_mode) count + 2 else count)
}

# Log densities of rows and the effective share of draws, for residuals without the row and 1 less the leverages (m x K).
given_components <- function(weight, error, slack, law, labels) {
  # A vector over the components, for matrices with a row for each row.
  over <- function(a) if (length(a) > 1L) rep(a, each = nrow(error)) else a
  weight <- log(over(weight))
  law <- lapply(law, over)
  if (law$known) {
    scale2 <- own <- law$variance
    df <- Inf
  } else {
    rest <- 1 - error^2 * slack / law$rss
    refuse_rows(rest > exact_share, labels, "the other rows are fitted without error")
    n <- law$count
    scale2 <- law$rss * rest / if (law$at_mode) n + 1 else n - 1
    own <- law$rss / if (law$at_mode) n + 2 else n
    df <- if (law$at_mode) Inf else n - 1
  }
  log_density <- function(x, scale, df) stats::dt(x / scale, df, log = TRUE) - log(scale)
  left_out <- log_density(error, sqrt(scale2 / slack), df)
  within <- log_density(error * slack, sqrt(own * (2 - slack)), df + 1)
  ratio <- weight - left_out
  total <- log_sums(ratio)
  list(elpd = -total, within = log_sums(weight + within), efficiency = exp(2 * total - log_sums(ratio - left_out)))
}

# Logarithms of the sums of exponentials of rows.
log_sums <- function(m) {
  top <- row_maxima(m)
  top + log(rowSums(exp(m - top)))
}

refuse_rows <- function(good, labels, reason) {
  bad <- which(rowSums(!good) > 0)
  if (length(bad)) {
    stop("row '", labels[bad[1L]], "' has no leave-one-out score: ", reason, call. = FALSE)
  }
}

# The effective number of independent draws that the kept states stand for; infinite where they are a whole sum. As in Python.
effective_draws <- function(object) {
  if (!has_sets(object$posterior)) {
    return(Inf)
  }
  weight <- object$posterior$weight[, 1L]
  if (!object$enumerated) {
    return(min(object$effective, 1 / sum(weight^2)))
  }
  # Of a sum with too many terms states are resampled, with weights that are counts.
  share <- weight / min(weight)
  counts <- length(weight) > 10L && all(abs(share - round(share)) <= 1e-6)
  if (counts) sum(share) else Inf
}
