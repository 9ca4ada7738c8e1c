#' Sets of columns
#'
#' Questions about several columns of a selection: which columns replace each other, which are in together, which sets
#' of columns are most probable, and which columns to select. Python is not required.
#'
#' @details All functions except `inclusion_se()` and `select_columns()` require the joint posterior of the columns and
#'   therefore a fit by `method = "exact"`.
#'
#' * `credible_sets()`: disjoint sets of correlated columns, each of which contains at least one included column with
#'   probability `coverage`. A set begins with the most probable column that is in no set yet. Columns are added whose
#'   absolute correlation with every column of the set is at least `min_abs_corr`, always the one that adds most to the
#'   probability that at least one column of the set is included. If `coverage` cannot be reached, there is no set. The
#'   columns of a group (a term) are a set of their own or in no set. Columns with `prior_inclusion` 1 are in no set.
#' * `select_columns()`: the largest set of the most probable columns of which an expected share of at most `fdr` is not
#'   included (the Bayesian false discovery rate). The columns of a group are selected together.
#' * `pair_inclusion()`: posterior probabilities that two columns are both included.
#' * `top_models()`: the most probable sets of columns. At most 100 are kept by a fit.
#' * `inclusion_se()`: Monte Carlo standard errors of `inclusion_prob()`. They are 0 if the posterior is a sum over all
#'   sets of columns, and `NA` for expectation propagation.
#'
#' The names `select()` and `models()` of the Python package are not used, because `select()` would mask the function of
#' the package 'dplyr'.
#'
#' @param object A fit of [spike_slab()].
#' @param coverage Probability that at least one column of a set is included.
#' @param min_abs_corr Smallest absolute correlation between two columns of a set.
#' @param fdr Expected share of false selections.
#' @param columns Names of columns that are subject to selection; by default the columns of [median_model()].
#' @param k Number of sets.
#' @param by Whether to return the standard errors of all coefficients or of the groups (with a formula its terms), as in
#'   [inclusion_prob()].
#' @param ... Not used: further arguments raise an error.
#' @return
#'   * `credible_sets()`: a data frame with a row for each column of a set: `set` (a number), `column`,
#'     `inclusion_prob`, `purity` (smallest absolute correlation in the set) and `probability` (that at least one column
#'     of the set is included).
#'   * `select_columns()`: a data frame with a row for each selected column in decreasing order of the probability:
#'     `column`, `inclusion_prob`, and `false_share`, the expected share of false selections up to this row.
#'   * `pair_inclusion()`: a matrix; the diagonal contains the probability of each column.
#'   * `top_models()`: a data frame with `columns` (a list of names), `size` and `probability`.
#'   * `inclusion_se()`: a named vector, of the coefficients or of the groups.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- spike_slab(mpg ~ ., data = mtcars, method = "exact")
#' credible_sets(fit)
#' select_columns(fit, fdr = 0.2)
#' pair_inclusion(fit, c("wt", "hp"))
#' top_models(fit, 3)
#' inclusion_se(fit, by = "group")
#' @name credible_sets
NULL

#' @rdname credible_sets
#' @export
credible_sets <- function(object, coverage = 0.95, min_abs_corr = 0.5, ...) {
  refuse_dots("credible_sets", ...)
  post <- posterior_of_sets(object, "a credible set", "credible_sets")
  check_share(coverage, "coverage")
  check_share(min_abs_corr, "min_abs_corr")
  prob <- unname(object$inclusion_prob[post$at])
  names <- coefficient_names(object)[post$at]
  units <- units_of(post)
  play <- units_in_play(object)
  found <- find_credible_sets(post, play, coverage - sum_error, min_abs_corr)
  rows <- lapply(seq_along(found), function(i) {
    at <- unlist(lapply(play[found[[i]]$chosen], function(unit) which(units == unit)))
    data.frame(
      set = i, column = names[at], inclusion_prob = prob[at], purity = found[[i]]$purity,
      probability = found[[i]]$probability
    )
  })
  none <- data.frame(
    set = integer(), column = character(), inclusion_prob = numeric(), purity = numeric(), probability = numeric()
  )
  do.call(rbind, c(list(none), rows))
}

#' @rdname credible_sets
#' @export
select_columns <- function(object, fdr = 0.1, ...) {
  refuse_dots("select_columns", ...)
  check_selection(object, "select_columns")
  check_share(fdr, "fdr")
  post <- object$posterior
  units <- units_of(post)
  prob <- unit_probabilities(object)
  ranked <- order(-prob)
  share <- cumsum(1 - prob[ranked]) / seq_along(ranked)
  count <- sum(cummax(share) <= fdr)
  at <- lapply(ranked[seq_len(count)], function(unit) which(units == unit))
  data.frame(
    column = coefficient_names(object)[post$at][as.integer(unlist(at))],
    inclusion_prob = rep(prob[ranked[seq_len(count)]], lengths(at)),
    false_share = rep(share[seq_len(count)], lengths(at))
  )
}

#' @rdname credible_sets
#' @export
pair_inclusion <- function(object, columns = median_model(object), ...) {
  refuse_dots("pair_inclusion", ...)
  post <- posterior_of_sets(object, "the probability of a pair", "pair_inclusion")
  names <- coefficient_names(object)[post$at]
  at <- match_names(as.character(columns), names)
  if (anyNA(at)) {
    odd <- columns[is.na(at)][1L]
    stop("'", odd, "' is not a column subject to selection", did_you_mean(as.character(odd), names), call. = FALSE)
  }
  inside <- set_inclusion(post, units_of(post)[at])
  out <- crossprod(inside, weight_of_sets(post) * inside)
  dimnames(out) <- list(names[at], names[at])
  out
}

#' @rdname credible_sets
#' @export
top_models <- function(object, k = 10, ...) {
  refuse_dots("top_models", ...)
  post <- posterior_of_sets(object, "the probability of a set of columns", "top_models")
  k <- min(check_count(k, "k"), length(post$model_prob))
  names <- coefficient_names(object)[post$at]
  sets <- factor(rep(seq_along(post$model_size), post$model_size), levels = seq_along(post$model_size))
  members <- unname(split(names[post$model_columns], sets))[seq_len(k)]
  out <- data.frame(size = lengths(members), probability = post$model_prob[seq_len(k)])
  out$columns <- members
  out[c("columns", "size", "probability")]
}

#' @rdname credible_sets
#' @export
inclusion_se <- function(object, by = c("column", "group"), ...) {
  refuse_dots("inclusion_se", ...)
  check_selection(object, "inclusion_se")
  by_group <- match.arg(by) == "group"
  if (!is.null(object$inclusion_se)) {
    return(if (by_group) object$group_inclusion_se else object$inclusion_se)
  }
  if (by_group) {
    return(replace(object$group_inclusion_prob, TRUE, NA_real_))
  }
  out <- object$inclusion_prob
  out[] <- 0
  out[object$posterior$at] <- NA
  out
}

check_selection <- function(object, name) {
  refuse_pooled(object, name)
  if (!inherits(object, "spike_slab")) {
    stop(
      name, "() is for fits of spike_slab()", if (inherits(object, "bayes_ridge")) ": bayes_ridge() includes every column",
      call. = FALSE
    )
  }
}

check_share <- function(value, name) {
  if (!is.numeric(value) || length(value) != 1L || is.na(value) || value <= 0 || value >= 1) {
    stop("'", name, "' must be a number between 0 and 1", call. = FALSE)
  }
}

# The posterior of an exact fit, or an error that says what needs it, by a function of the `name`.
posterior_of_sets <- function(object, what, name) {
  refuse_pooled(object, name)
  if (!has_sets(object$posterior)) {
    stop(what, " needs the joint posterior of the columns: use spike_slab(method = \"exact\")", call. = FALSE)
  }
  object$posterior
}

# The unit (column or group) of each penalised column, numbered as in Python.
units_of <- function(post) {
  if (is.null(post$groups)) seq_along(post$at) else match(post$groups, sort(unique(post$groups)))
}

# Inclusion probabilities of the units.
unit_probabilities <- function(object) {
  units <- units_of(object$posterior)
  unname(object$inclusion_prob[object$posterior$at])[match(seq_len(max(units, 0)), units)]
}

weight_of_sets <- function(post) {
  as.vector(rowsum(post$weight[, 1L], factor(post$state_set, levels = seq_along(post$set_size))))
}

# 1 where a unit is in a set: a row for each set, a column for each of `units`.
set_inclusion <- function(post, units) {
  of_set <- rep(seq_along(post$set_size), post$set_size)
  unit <- units_of(post)[post$visited[post$set_columns]]
  out <- matrix(0, length(post$set_size), length(units))
  for (i in seq_along(units)) out[of_set[unit == units[i]], i] <- 1
  out
}

# Units in less than this, and those beyond the most probable ones, are in no credible set; as in Python.
least_probability <- 1e-4
most_in_play <- 2000L

# Units of which credible sets are made, the most probable first.
units_in_play <- function(object) {
  post <- object$posterior
  prob <- unit_probabilities(object)
  play <- utils::head(order(-prob), most_in_play)
  units <- units_of(post)
  always <- units[object$prior_inclusion[post$at] >= 1]
  play[prob[play] > least_probability & !play %in% always & play %in% units[post$visited]]
}

# Absolute correlations of the unit at a position with all in play; of a group 1 with itself and 0 else.
correlations_in_play <- function(post, play) {
  units <- units_of(post)
  single <- which(tabulate(units)[play] == 1L)
  x <- post$square_root[, match(match(play[single], units), post$visited), drop = FALSE]
  size <- sqrt(colSums(x^2))
  function(at) {
    out <- numeric(length(play))
    i <- match(at, single)
    if (!is.na(i)) {
      product <- size * size[i]
      out[single] <- abs(drop(crossprod(x, x[, i]))) / ifelse(product > 0, product, Inf)
    }
    out[at] <- 1
    out
  }
}

# Positions in `play`, probability and purity of each set: the steps of pybayesridge/selection/credible.py.
find_credible_sets <- function(post, play, coverage, min_abs_corr) {
  inside <- set_inclusion(post, play) > 0
  weight <- weight_of_sets(post)
  correlation <- correlations_in_play(post, play)
  covers <- function(at) sum(weight[rowSums(inside[, at, drop = FALSE]) > 0])
  taken <- logical(length(play))
  out <- list()
  for (first in seq_along(play)) {
    if (taken[first]) next
    near <- which(!taken & correlation(first) >= min_abs_corr)
    if (covers(near) < coverage) next
    chosen <- grow_set(first, near, inside, weight, covers, correlation, coverage, min_abs_corr)
    if (is.null(chosen)) next
    taken[chosen] <- TRUE
    purity <- min(vapply(chosen, function(at) min(correlation(at)[chosen]), 0))
    out <- c(out, list(list(chosen = chosen, probability = covers(chosen), purity = purity)))
  }
  out
}

# The set around `first`, or NULL if `coverage` cannot be reached.
grow_set <- function(first, near, inside, weight, covers, correlation, coverage, min_abs_corr) {
  chosen <- first
  covered <- inside[, first]
  near <- setdiff(near, first)
  while (sum(weight[covered]) < coverage) {
    if (!length(near)) {
      return(NULL)
    }
    gain <- drop(weight[!covered] %*% inside[!covered, near, drop = FALSE])
    if (max(gain) <= 0) {
      return(NULL)
    }
    best <- near[which(gain >= max(gain) - sum_error)[1L]]
    chosen <- c(chosen, best)
    covered <- covered | inside[, best]
    near <- near[near != best & correlation(best)[near] >= min_abs_corr]
  }
  for (one in sort(chosen, decreasing = TRUE)) {
    rest <- setdiff(chosen, one)
    if (length(rest) && covers(rest) >= coverage) chosen <- rest
  }
  sort(chosen)
}

# Error of a sum of weights: it decides neither on a coverage nor between columns that add the same. As in Python.
sum_error <- 1e-12

# The slab variance and the prior inclusion probability (unless it was given) of states with the noise variances `sigma2`.
state_hyper <- function(post, state, sigma2) {
  c(
    list(slab_var = exp(post$log_g[state]) * post$slab_unit * sigma2),
    if (!anyNA(post$t)) list(prior_inclusion = stats::plogis(post$t[state]))
  )
}
