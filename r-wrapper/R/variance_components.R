#' Variances, random effects and smooth curves
#'
#' Of fits of [bayes_ridge()] with several penalties: `bands`, or terms such as `(1 | g)`, `s(x)` and `band(a, b)` in the formula.
#' Python is not required.
#'
#' @details
#' * `variance_components()`: the standard deviation of the coefficients of each band, on the scale of the prior, and the share of
#'   the band in the variance of an observation given the unpenalised columns; for the levels of a factor the share is the
#'   intraclass correlation. An interval of a standard deviation never contains 0: `prob_below_1pct`, the probability that the
#'   share is below 1 %, tells whether a band matters. Bands with correlated effects, `(x | g)`, have the share of the term as a whole,
#'   and rows `cor(g, x|g)` are their correlations. With methods that fix the penalties the intervals are conditional on them.
#' * `VarCorr()`: the same as standard deviations and variances of the effects of groups and of the residual, as in 'nlme' and 'lme4',
#'   with posterior means of the standard deviations and correlations.
#' * `ranef()`: posterior means of the effects of groups: for each grouping factor a data frame with a row for each level and a column
#'   for each effect. With `intervals = TRUE` one data frame with intervals.
#' * `fixef()`: posterior means of all other coefficients.
#' * `smooth_curve()`: a smooth curve alone, whose mean over the rows is 0.
#'
#' `VarCorr()`, `ranef()` and `fixef()` are methods for the generic functions of 'nlme', which 'lme4' uses as well, and functions of
#' this package of the same names.
#'
#' @param object,x A fit.
#' @param level Probability of the (equal-tailed) intervals.
#' @param target Name or position of a target, if there are several.
#' @param sigma Not used; part of the generic function.
#' @param intervals Whether to return standard deviations and intervals.
#' @param term Name of the curve, such as `"s(x)"` or `"s(x):g[a]"`; needed if there are several.
#' @param at Values of the variable: 101 from the smallest to the largest knot by default.
#' @param ... Not used: further arguments raise an error.
#' @return
#'   * `variance_components()`: a data frame with a row for each band and the columns `mean`, `sd`, `lower`, `upper` (of the standard
#'     deviation; `sd` is `Inf` where its posterior has no variance, as if the columns of all bands together have rank 1), `share`, `share_lower`, `share_upper`, `prob_below_1pct`, and `bound`
#'     and `share_bound`, which the standard deviation and the share do not exceed with probability `level`; with several targets `response` and `band`, too.
#'   * `VarCorr()`: a data frame with `grp`, `var1`, `var2`, `vcov` and `sdcor`, as that of 'lme4'.
#'   * `ranef()`: a named list of data frames, or with `intervals` a data frame with `group`, `level`, `term`, `mean`, `sd`, `lower` and
#'     `upper`.
#'   * `fixef()`: a named vector (a matrix if there are several targets).
#'   * `smooth_curve()`: a data frame with the variable, `mean`, `sd`, `lower` and `upper`. Of a curve that a number multiplies, `s(x, by =
#'     z)`, the number being 1.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(breaks ~ tension + (1 | wool:tension), data = warpbreaks, unpenalized = "fixed")
#' variance_components(fit)
#' ranef(fit, intervals = TRUE)
#'
#' curve <- bayes_ridge(mpg ~ s(hp, k = 6) + (1 | cyl), data = mtcars)
#' smooth_curve(curve, at = c(100, 200))
#' @name variance_components
NULL

#' @rdname variance_components
#' @export
variance_components <- function(object, level = 0.95, ...) {
  refuse_dots("variance_components", ...)
  check_bands_of_fit(object, "variance_components")
  check_level(level)
  tables <- lapply(seq_along(object$targets), function(i) {
    out <- do.call(rbind, lapply(seq_along(object$bands), component_row, object = object, target = i, at = c(tails(level), level)))
    correlations <- correlation_table(object, i, level)
    if (nrow(correlations)) out <- rbind(out, cbind(correlations, matrix(NaN, nrow(correlations), ncol(out) - 4L)))
    rows <- c(object$bands, rownames(correlations))
    out <- as.data.frame(out)
    if (length(object$targets) == 1L) {
      rownames(out) <- rows
      return(out)
    }
    cbind(response = object$targets[i], band = rows, out)
  })
  do.call(rbind, tables)
}

# The numbers of a band, for quantiles at the ends of an interval and at a bound.
component_row <- function(object, band, target, at) {
  sd <- 2L * band - 1L
  share <- 2L * band
  own <- lapply(c("mean", "sd", "little"), function(name) as.matrix(object$components[[name]])[, target])
  ends <- quantiles_of_component(object, sd, target, at)
  of_share <- quantiles_of_component(object, share, target, at)
  c(
    mean = own[[1L]][sd], sd = own[[2L]][sd], lower = ends[1L], upper = ends[2L], share = own[[1L]][share],
    share_lower = of_share[1L], share_upper = of_share[2L], prob_below_1pct = own[[3L]][share],
    bound = ends[3L], share_bound = of_share[3L]
  )
}

# Mean, standard deviation and interval of each correlation of the effects of groups, a row for each.
correlation_table <- function(object, target, level) {
  rows <- rows_of_quantity(object, "correlation")
  found <- lapply(rows, function(row) {
    own <- vapply(c("mean", "sd"), function(name) as.matrix(object$components[[name]])[row, target], 0)
    c(own, quantiles_of_component(object, row, target, tails(level)))
  })
  matrix(as.double(unlist(found)), ncol = 4L, byrow = TRUE, dimnames = list(object$components$band[rows], c("mean", "sd", "lower", "upper")))
}

check_bands_of_fit <- function(object, what) {
  refuse_pooled(object, what)
  if (!inherits(object, "bayes_ridge_bands")) {
    stop(what, "() is for fits of bayes_ridge() with several penalties: 'bands', or terms such as (1 | g) and s(x)", call. = FALSE)
  }
}

check_groups_of_fit <- function(object, what) {
  check_bands_of_fit(object, what)
  if (!length(group_bands_of(object))) {
    stop(
      what, "() is for fits with terms such as (1 | g) in a formula: the coefficients of the bands are those of coef() and confint()",
      call. = FALSE
    )
  }
}

# Mean, median and interval of the standard deviations of the bands and of the noise variance or what the family has in its place.
hyperparameters_of_bands <- function(object, level) {
  rows <- which(object$components$quantity != "share")
  band <- object$components$band[rows]
  what <- ifelse(object$components$quantity[rows] == "sd", paste0("sd[", band, "]"), ifelse(nzchar(band), band, "sigma2"))
  tables <- lapply(seq_along(object$targets), function(i) {
    ends <- t(vapply(rows, function(row) quantiles_of_component(object, row, i, c(0.5, tails(level))), numeric(3L)))
    table <- data.frame(as.matrix(object$components$mean)[rows, i], ends)
    names(table) <- c("mean", "median", "lower", "upper")
    if (length(object$targets) == 1L) {
      rownames(table) <- what
      return(rbind(table, shape_table(object, level)))
    }
    rownames(table) <- paste(object$targets[i], what, sep = ":")
    cbind(response = object$targets[i], parameter = what, table)
  })
  do.call(rbind, tables)
}

#' @rdname variance_components
#' @export
VarCorr <- function(x, sigma = 1, ...) UseMethod("VarCorr")

#' @export
VarCorr.default <- function(x, sigma = 1, ...) of_nlme("VarCorr", x, ...)

#' @rdname variance_components
#' @export
#' @rawNamespace S3method(nlme::VarCorr,pybayesridge_fit)
VarCorr.pybayesridge_fit <- function(x, sigma = 1, ...) {
  refuse_dots("VarCorr", ...)
  check_groups_of_fit(x, "VarCorr")
  bands <- group_bands_of(x)
  tables <- lapply(seq_along(x$targets), function(i) {
    at <- rows_of_quantity(x, "sd")[match(vapply(bands, `[[`, "", "name"), x$bands)]
    mean <- as.matrix(x$components$mean)[, i]
    sd <- mean[at]
    out <- data.frame(
      grp = vapply(bands, function(band) group_label(band$groups), ""), var1 = vapply(bands, effect_name, ""), var2 = NA_character_,
      vcov = sd^2, sdcor = sd
    )
    pairs <- correlated_pairs(x)
    if (nrow(pairs)) {
      between <- mean[rows_of_quantity(x, "correlation")]
      of_pairs <- data.frame(out[pairs[, 1L], c("grp", "var1")], var2 = out$var1[pairs[, 2L]], vcov = between * sd[pairs[, 1L]] * sd[pairs[, 2L]], sdcor = between)
      # As in lme4, after the variances of their term.
      out <- rbind(out, of_pairs)[order(c(seq_along(sd), pairs_after(x, pairs))), ]
    }
    noise <- sqrt(mean[rows_of_quantity(x, "sigma2")])
    if (length(noise)) out <- rbind(out, data.frame(grp = "Residual", var1 = NA, var2 = NA, vcov = noise^2, sdcor = noise))
    rownames(out) <- NULL
    if (length(x$targets) > 1L) cbind(response = x$targets[i], out) else out
  })
  do.call(rbind, tables)
}

# The pairs of effects of groups that are correlated, as positions among group_bands_of(), in the order of the components.
correlated_pairs <- function(object) {
  bands <- group_bands_of(object)
  names <- vapply(bands, `[[`, "", "name")
  pairs <- lapply(correlated_sets(bands), function(set) {
    at <- match(unlist(set), names)
    do.call(rbind, lapply(seq_along(at)[-1L], function(i) cbind(at[seq_len(i - 1L)], at[i])))
  })
  if (length(pairs)) do.call(rbind, pairs) else matrix(0L, 0L, 2L)
}

# Where correlations stand in a table of effects: after the last effect of their term.
pairs_after <- function(object, pairs) {
  bands <- group_bands_of(object)
  term <- vapply(bands, function(band) paste(band[["correlated"]], group_label(band$groups)), "")
  vapply(pairs[, 1L], function(at) max(which(term == term[at])) + 0.5, 0)
}

# What lme4 calls an effect.
effect_name <- function(band) if (band$term == "1") "(Intercept)" else band$term

# A generic function of 'nlme', which is that of 'lme4' as well, for other objects.
of_nlme <- function(name, object, ...) {
  refuse_pooled(object, name)
  if (!requireNamespace("nlme", quietly = TRUE)) {
    stop(name, "() is for fits of bayes_ridge(), not ", kind_of(object), call. = FALSE)
  }
  getExportedValue("nlme", name)(object, ...)
}

#' @rdname variance_components
#' @export
fixef <- function(object, ...) UseMethod("fixef")

#' @export
fixef.default <- function(object, ...) of_nlme("fixef", object, ...)

#' @rdname variance_components
#' @export
#' @rawNamespace S3method(nlme::fixef,pybayesridge_fit)
fixef.pybayesridge_fit <- function(object, ...) {
  refuse_dots("fixef", ...)
  keep <- !are_effects_of_groups(object)
  b <- object$coefficients
  if (is.matrix(b)) b[keep, , drop = FALSE] else b[keep]
}

#' @rdname variance_components
#' @export
ranef <- function(object, ...) UseMethod("ranef")

#' @export
ranef.default <- function(object, ...) of_nlme("ranef", object, ...)

#' @rdname variance_components
#' @export
#' @rawNamespace S3method(nlme::ranef,pybayesridge_fit)
ranef.pybayesridge_fit <- function(object, target = NULL, intervals = FALSE, level = 0.95, ...) {
  refuse_dots("ranef", ...)
  check_groups_of_fit(object, "ranef")
  check_level(level)
  if (is.null(target) && length(object$targets) > 1L) {
    stop("the fit has several targets: name one by 'target'", call. = FALSE)
  }
  target <- if (is.null(target)) 1L else target_position(object, target)
  if (check_flag(intervals, "intervals")) {
    return(effects_of_groups(object, target, tails(level)))
  }
  bands <- group_bands_of(object)
  labels <- vapply(bands, function(band) group_label(band$groups), "")
  b <- as.matrix(object$coefficients)[, target]
  lapply(split(bands, factor(labels, levels = unique(labels))), function(own) {
    out <- as.data.frame(lapply(own, function(band) unname(b[band$columns])), row.names = levels_of_band(own[[1L]]))
    names(out) <- vapply(own, effect_name, "")
    out
  })
}

# The levels of a grouping factor; of several together "a:b".
levels_of_band <- function(band) {
  groups <- band$groups
  each <- lapply(seq_along(groups$variables), function(j) told_levels(groups$levels[[j]])[groups$pairs[, j]])
  make.unique(do.call(paste, c(each, sep = ":")))
}

# The effects of all groups of one target in a table; without `at` no intervals.
effects_of_groups <- function(object, target, at = NULL) {
  tables <- lapply(group_bands_of(object), function(band) {
    place <- match(band$columns, coefficient_names(object))
    out <- data.frame(
      group = group_label(band$groups), level = levels_of_band(band), term = effect_name(band),
      mean = unname(as.matrix(object$coefficients)[place, target]), sd = deviations_at(object, place, target)
    )
    if (is.null(at)) {
      return(out)
    }
    ends <- coefficient_intervals(object, target, at, place)
    cbind(out, lower = ends[, 1L], upper = ends[, 2L])
  })
  do.call(rbind, tables)
}

#' @rdname variance_components
#' @export
smooth_curve <- function(object, term = NULL, at = NULL, level = 0.95, target = 1, ...) {
  refuse_dots("smooth_curve", ...)
  check_bands_of_fit(object, "smooth_curve")
  check_level(level)
  target <- target_position(object, target)
  band <- curve_of_fit(object, term)
  knots <- band$curve$knots
  at <- at %||% seq(knots[1L], knots[length(knots)], length.out = 101L)
  if (!is.numeric(at) || !length(at) || !all(is.finite(at))) {
    stop("'at' must be finite numbers", call. = FALSE)
  }
  line <- cbind(as.double(at) - band$curve$mean)
  if (length(band$lines) == 2L) line <- cbind(1, line)
  x <- matrix(0, length(at), length(coefficient_names(object)))
  x[, match(c(band$lines, band$columns), coefficient_names(object))] <- cbind(line, curve_at(band$curve, as.double(at)))
  ends <- row_intervals(object, x, target, tails(level), NULL)
  out <- data.frame(
    at, mean = linear_predictor(object, x, target), sd = row_standard_deviations(object, x, target), lower = ends[, 1L], upper = ends[, 2L]
  )
  names(out)[1L] <- band$term
  out
}

# The smooth curve that a name stands for, or the only one.
curve_of_fit <- function(object, term) {
  curves <- Filter(function(band) band$kind == "smooth", object$band_terms$bands)
  names <- vapply(curves, `[[`, "", "name")
  if (!length(curves)) {
    stop("the fit has no smooth curves, which terms such as s(x) in a formula of R make", call. = FALSE)
  }
  at <- if (is.null(term) && length(curves) == 1L) 1L else match(term %||% "", names)
  if (length(at) != 1L || is.na(at)) {
    stop("'term' must be one of ", paste0("'", names, "'", collapse = ", "), call. = FALSE)
  }
  curves[[at]]
}
