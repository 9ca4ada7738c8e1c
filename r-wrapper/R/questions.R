#' Contrasts, effects and checks
#'
#' Questions on a fit that Python answers: posteriors of linear combinations of coefficients, effects of variables, sensitivity to
#' the prior, predictive checks, and models side by side. Names of arguments and columns are those of the Python package.
#'
#' @details Unlike other methods these functions require Python, see [install_pybayesridge()]. Python fits the model again, to the
#'   data kept by the fit (see `model` in [bayes_ridge()]) or those named in its call, and refuses to answer if the coefficients
#'   differ. The last fits are kept for the next question. Without Python use the draws of [posterior_sample()].
#'
#'   * `contrast()`: linear combinations of coefficients. `"wt - hp"`, several with commas between them or as a vector, whose names
#'     are their labels; what stands on the right of `=` is subtracted. Names of coefficients are those of `coef()`, such as
#'     `factor(cyl)8` or `poly(wt, 2)1`; names with signs or spaces may be in backticks. Or weights: a vector named by coefficients, a
#'     matrix or data frame with such columns, or a matrix with a column for each coefficient.
#'   * `joint_contrast()`: several contrasts together, such as whether all can be zero. The name of a term of the formula, such as
#'     `"factor(cyl)"`, `"wt:gear"`, `"s(hp)"` or `"(1 | gear)"`, stands for all its coefficients. For [bayes_ridge()] `content` is the posterior probability of the smallest ellipsoid around the
#'     posterior mean that contains zero: near 1 zero is far out. For [spike_slab()] with `method = "exact"` `prob_zero` is the
#'     posterior probability that all are exactly zero.
#'   * `effects()`: average changes of the prediction with a variable of the formula, whatever terms it is in: per unit of a number
#'     (the average over rows of the derivative), of each level of a factor compared with the first one, or from `values[1]` to
#'     `values[2]`. All other variables keep the values that they have in each row. The formula codes the changed rows as
#'     `predict()` does. Rows count alike, for binomial fits as often as they have trials and weights.
#'   * `prior_sensitivity()`: posterior means and standard deviations if the prior counts half as much and twice as much.
#'   * `ppc()`: statistics of the response compared with those of replicated responses.
#'   * `pit()`: the distribution function of the prediction of each row from the others, at its response. It is uniform if the
#'     model describes the data. Not for binomial fits, see `plot(which = "calibration")`, or Poisson fits, see `ppc()`.
#'   * `compare_models()`: the estimates of several fits in one table.
#'
#'   The numbers are on the scale of the coefficients; for binomial and Poisson fits `effects(which = "mean")` are changes of probabilities,
#'   or of expected counts for an exposure of 1 (their medians). Ordered categories have no mean: their effects are those of the
#'   linear predictor.
#'
#' @param object A fit of [bayes_ridge()] or [spike_slab()].
#' @param contrasts Contrasts, see the details.
#' @param alpha One minus the probability of the intervals.
#' @param target Name or position of a target, if there are several.
#' @param rng Seed of what is drawn; the numbers are the same at each call.
#' @param variables Names of variables of the formula (of columns of `x` for fits without one); by default all.
#' @param values Two values or levels of a variable to compare.
#' @param data Rows over which changes are averaged; those of the fit by default.
#' @param which For binomial and Poisson fits: changes of probabilities or expected counts (`"mean"`) or of the linear predictor (`"linear"`).
#' @param stat Names of statistics (`"mean"`, `"sd"`, `"min"`, `"max"`, `"zeros"`, `"dispersion"`; of counts and ordered categories also
#'   `"frequencies"`, the numbers of rows with each value), or a named list of functions of a response. By default
#'   those that say something of the family.
#' @param draws Number of replicated responses.
#' @param show What stands below each estimate: the posterior standard deviation (`"sd"`) or the interval (`"interval"`).
#' @param terms Names of coefficients to show; by default all, or the 30 that are largest relative to their standard deviation if
#'   there are more than 60.
#' @param x,digits For `print()`: a table, and significant digits.
#' @param ... For `compare_models()` fits, named or unnamed, or a list of fits. Otherwise not used: further arguments raise an error.
#' @return
#'   * `contrast()`: a data frame with a row for each contrast: `mean`, `sd`, `lower`, `upper` (equal-tailed), `prob_positive`, and
#'     for [spike_slab()] `prob_zero`, the probability of exactly 0, and if sets of columns were sampled `mcse`, the Monte Carlo
#'     standard error of the mean.
#'   * `joint_contrast()`: a named vector, see the details; `mcse` is the Monte Carlo standard error.
#'   * `effects()`: a data frame with the columns `variable` and `change`, and those of `contrast()`. Changes of probabilities also
#'     have `mcse`, the Monte Carlo standard error of the mean, which is 0 where nothing was drawn.
#'   * `prior_sensitivity()`: a data frame with a row for each coefficient: `mean_half`, `mean`, `mean_double`, `sd_half` and so on,
#'     for [spike_slab()] also `inclusion_half` and so on, and `shift`, the larger change of the mean in standard deviations. With
#'     several targets the first column is `response`.
#'   * `ppc()`: a data frame with a row for each statistic: `observed`, and `mean`, `lower`, `upper` of the replicated ones, and `p`,
#'     the share of these above the observed one.
#'   * `pit()`: a vector with a value for each row.
#'   * `compare_models()`: a data frame with the columns `term`, `value` and one for each fit; printing shows it as a table.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' contrast(fit, "factor(cyl)8 - factor(cyl)6, wt = -3")
#' joint_contrast(fit, "factor(cyl)")
#' effects(fit)
#' effects(fit, "hp", values = c(100, 200))
#' prior_sensitivity(fit)
#' ppc(fit)
#' pit(fit)[1:3]
#' compare_models(ridge = fit, selection = spike_slab(mpg ~ wt + hp, data = mtcars))
#' @name contrast
NULL

#' @rdname contrast
#' @export
contrast <- function(object, ...) UseMethod("contrast")

# Objects of 'emmeans', whose generic function has the same name.
#' @export
contrast.default <- function(object, ...) {
  refuse_pooled(object, "contrast")
  if (inherits(object, c("emmGrid", "emm_list")) && requireNamespace("emmeans", quietly = TRUE)) {
    return(emmeans::contrast(object, ...))
  }
  stop("contrast() is for fits of bayes_ridge() and spike_slab(), not ", kind_of(object), call. = FALSE)
}

#' @rdname contrast
#' @export
#' @rawNamespace S3method(emmeans::contrast,pybayesridge_fit)
contrast.pybayesridge_fit <- function(object, contrasts, alpha = 0.05, target = NULL, ...) {
  refuse_dots("contrast", ...)
  asked <- contrasts_for_python(object, contrasts)
  answer <- ask_python("contrast", object, parent.frame(), c(asked, alpha = check_alpha(alpha), target_for_python(object, target)))
  posterior_table(answered_frame(answer), "Posterior of contrasts", alpha)
}

#' @rdname contrast
#' @export
joint_contrast <- function(object, contrasts, target = NULL, rng = 0, ...) {
  refuse_dots("joint_contrast", ...)
  check_fit(object, "joint_contrast")
  env <- parent.frame()
  asked <- contrasts_for_python(object, contrasts, env)
  answer <- ask_python("joint_contrast", object, env, c(asked, target_for_python(object, target), list(rng = check_number(rng, "rng"))))
  stats::setNames(as.vector(answer$values), as.character(unlist(answer$names)))
}

#' @rdname contrast
#' @importFrom stats effects
#' @export
effects.pybayesridge_fit <- function(object, variables = NULL, values = NULL, data = NULL, alpha = 0.05,
                                     which = c("mean", "linear"), rng = 0, target = NULL, ...) {
  refuse_dots("effects", ...)
  which <- if (missing(which) && has_cuts(object)) "linear" else match.arg(which)
  refuse_one_number(object, if (which == "linear") "link" else which, "which", "linear")
  env <- parent.frame()
  changes <- changes_of(object, variables, values, data, env)
  labels <- data.frame(
    variable = vapply(changes, `[[`, "", "variable"), change = vapply(changes, `[[`, "", "label"), row.names = NULL
  )
  common <- list(alpha = check_alpha(alpha))
  answer <- if (which == "mean" && !family_of(object)$noise) {
    given <- lapply(changes, function(change) lapply(change[c("from", "to", "at", "slopes")], function(x) x))
    given <- lapply(given, function(change) change[!vapply(change, is.null, NA)])
    ask_python("average_effects", object, env, c(common, list(
      changes = unname(given), weights = as.array(attr(changes, "weights")), rng = check_number(rng, "rng")
    )))
  } else {
    weights <- attr(changes, "weights") / sum(attr(changes, "weights"))
    rows <- t(vapply(changes, function(change) {
      drop(weights %*% (change[["slopes"]] %||% (change$to - change$from)))
    }, numeric(length(coefficient_names(object)))))
    ask_python("contrast", object, env, c(
      common, list(contrasts = rows, labels = as.list(seq_len(nrow(rows)) + 0)), target_for_python(object, target)
    ))
  }
  table <- cbind(labels, answered_frame(answer))
  rownames(table) <- NULL
  posterior_table(table, "Average effects on the prediction", alpha)
}

#' @rdname contrast
#' @export
prior_sensitivity <- function(object, ...) {
  refuse_dots("prior_sensitivity", ...)
  check_fit(object, "prior_sensitivity")
  answer <- ask_python("prior_sensitivity", object, parent.frame(), list())
  names <- coefficient_names(object)
  out <- answered_frame(answer, names = make.unique(rep(names, length(object$targets))))
  if (length(object$targets) > 1L) {
    out <- cbind(response = rep(object$targets, each = length(names)), term = names, out)
    rownames(out) <- NULL
  }
  posterior_table(out, "Coefficients if the prior counts half as much and twice as much")
}

#' @rdname contrast
#' @export
ppc <- function(object, stat = NULL, draws = 1000, alpha = 0.05, rng = 0, target = NULL, ...) {
  refuse_dots("ppc", ...)
  check_fit(object, "ppc")
  given <- list(draws = check_count(draws, "draws"), alpha = check_alpha(alpha), rng = check_number(rng, "rng"))
  given$draws <- as.double(given$draws)
  given$stat <- statistics_for_python(stat)
  answer <- ask_python("ppc", object, parent.frame(), c(given, target_for_python(object, target)))
  posterior_table(answered_frame(answer), "Posterior predictive check", alpha)
}

#' @rdname contrast
#' @export
pit <- function(object, target = NULL, ...) {
  refuse_dots("pit", ...)
  check_fit(object, "pit")
  if (!family_of(object)$noise) {
    stop("pit() is for family = gaussian(): ", family_of(object)$checked_by, call. = FALSE)
  }
  answer <- ask_python("pit", object, parent.frame(), target_for_python(object, target))
  stats::setNames(as.vector(answer$values), row_names_of(object))
}

#' @rdname contrast
#' @export
compare_models <- function(..., alpha = 0.05, show = c("sd", "interval"), terms = NULL) {
  fits <- named_fits(list(...), substitute(list(...)))
  for (name in names(fits)) {
    refuse_pooled(fits[[name]], "compare_models")
    if (!inherits(fits[[name]], "pybayesridge_fit")) {
      stop("'", name, "' is ", kind_of(fits[[name]]), ", not a fit of spike_slab() or bayes_ridge()", call. = FALSE)
    }
  }
  given <- list(labels = as.list(names(fits)), alpha = check_alpha(alpha), show = match.arg(show))
  if (!is.null(terms)) given$terms <- as.list(as.character(terms))
  answer <- ask_python("compare_models", fits, parent.frame(), given)
  values <- matrix(answer$values, ncol = length(fits), dimnames = list(NULL, names(fits)))
  out <- data.frame(
    term = as.character(unlist(answer$terms)), value = as.character(unlist(answer$numbers)), values, check.names = FALSE
  )
  structure(out, text = answer$text, class = c("pybayesridge_models", "data.frame"))
}

#' @rdname contrast
#' @export
print.pybayesridge_models <- function(x, ...) {
  refuse_dots("print", ...)
  if (is.null(attr(x, "text"))) print.data.frame(x) else cat(attr(x, "text"), "\n", sep = "")
  invisible(x)
}

#' @rdname contrast
#' @export
print.pybayesridge_table <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  refuse_dots("print", ...)
  if (!is.null(attr(x, "title"))) cat(attr(x, "title"), "\n\n", sep = "")
  shown <- Map(function(column, name) {
    if (!is.numeric(column)) column else unname(if (name %in% are_probabilities) probabilities(column) else alike(column, digits))
  }, x, names(x))
  print.data.frame(as.data.frame(shown, row.names = row.names(x), optional = TRUE))
  invisible(x)
}

#' @export
`[.pybayesridge_table` <- function(x, ...) {
  out <- NextMethod()
  if (is.data.frame(out)) attr(out, "title") <- NULL
  out
}

# Columns of tables that are probabilities.
are_probabilities <- c("prob_positive", "prob_zero", "prob_above_1", "prob_equal_1", "probability", "inclusion_prob", "p")

posterior_table <- function(frame, title = NULL, alpha = NULL) {
  if (!is.null(alpha)) title <- paste0(title, " (", format(100 * (1 - alpha)), " % intervals)")
  structure(frame, title = title, class = c("pybayesridge_table", "data.frame"))
}

# Asks Python a question on one fit or a list of fits, with the data found from `env`.
ask_python <- function(question, fits, env, given) {
  available <- pybayesridge_available()
  if (!available) {
    stop(
      question_name(question), "() is computed by Python, which is not available here (", attr(available, "reason"),
      "). Without Python posterior_sample() gives draws of the coefficients, from which it can be computed",
      call. = FALSE
    )
  }
  if (inherits(fits, "pybayesridge_fit")) fits <- list(fits)
  call_python("ask", unname(lapply(fits, fit_for_python, env)), question, given)
}

question_name <- function(question) if (question == "average_effects") "effects" else question

# What Python needs to fit again what R has fitted.
fit_for_python <- function(object, env) {
  own <- list(
    names = as.list(coefficient_names(object)), params = as.matrix(object$coefficients), bse = as.matrix(object$bse)
  )
  if (!is.null(object$file)) {
    return(c(own, list(path = object$file, allow_code = isTRUE(object$allow_code))))
  }
  input <- refitted_input(object, env)
  labels <- colnames(input$x)
  rows <- rownames(input$x)
  settings <- object$settings
  settings$model$weights <- input$weights
  c(own, list(
    y = input$y, x = columns_for_python(input$x), x_names = if (!is.null(labels)) as.list(labels),
    y_names = as.list(colnames(input$y)), from_formula = !is.null(input$terms), model = settings$model, fit = settings$fit,
    family = settings$family, group = settings$group, row_names = if (!is.null(rows)) as.list(rows)
  ))
}

answered_frame <- function(answer, names = as.character(unlist(answer$rows))) {
  columns <- as.character(unlist(answer$columns))
  values <- matrix(answer$values, ncol = length(columns))
  colnames(values) <- columns
  data.frame(values, row.names = make.unique(names), check.names = FALSE)
}

target_for_python <- function(object, target) {
  if (!is.null(target)) list(target = object$targets[target_position(object, target)])
}

check_alpha <- function(alpha) {
  check_share(alpha, "alpha")
  alpha
}

check_fit <- function(object, name) {
  refuse_pooled(object, name)
  if (!inherits(object, "pybayesridge_fit")) {
    stop(name, "() is for fits of bayes_ridge() and spike_slab(), not ", kind_of(object), call. = FALSE)
  }
}

# Names of statistics, or functions by name that Python calls.
statistics_for_python <- function(stat) {
  if (is.null(stat)) {
    return(NULL)
  }
  if (is.character(stat)) {
    return(as.list(stat))
  }
  if (is.function(stat)) stat <- list(statistic = stat)
  if (!is.list(stat) || is.null(names(stat)) || !all(nzchar(names(stat))) || !all(vapply(stat, is.function, NA))) {
    stop("'stat' must be names of statistics or a named list of functions", call. = FALSE)
  }
  lapply(stat, function(f) function(y) as.double(f(as.vector(y))))
}

# Fits by name: those that were named, and what was written for the others; `written` is the call list(...).
named_fits <- function(fits, written) {
  written <- vapply(as.list(written)[-1L], deparse1, "")
  if (length(fits) == 1L && is.list(fits[[1L]]) && is.null(oldClass(fits[[1L]]))) {
    fits <- fits[[1L]]
    written <- as.character(seq_along(fits))
  }
  if (!length(fits)) {
    stop("there are no fits to compare", call. = FALSE)
  }
  given <- if (is.null(names(fits))) character(length(fits)) else names(fits)
  names(fits) <- make.unique(ifelse(nzchar(given), given, written))
  fits
}
