# The pictures of a fit, which plot() and autoplot() draw: the numbers and labels of each, made once for both.

# Names of the pictures that a fit has, the default first.
pictures_of <- function(object) {
  c(
    if (inherits(object, "spike_slab")) "inclusion", "coefficients", family_of(object)$pictures,
    if (length(group_bands_of(object))) "random_effects"
  )
}

# The picture that was asked for by name or its beginning.
check_picture <- function(object, which) {
  valid <- pictures_of(object)
  if (is.null(which)) {
    return(valid[1L])
  }
  at <- if (is.character(which) && length(which) == 1L) pmatch(which, valid) else NA
  if (is.na(at)) {
    stop(
      "'which' must be ", paste0("\"", valid, "\"", collapse = " or "), " for this fit",
      if (is.character(which) && length(which) == 1L) paste0(", not \"", which, "\""),
      call. = FALSE
    )
  }
  valid[at]
}

# Labels and the table of a picture, given a fit and the options of plot() and autoplot().
coefficient_picture <- function(object, options) {
  check_level(options$level)
  target <- target_position(object, options$target)
  list(
    table = shown_coefficients(object, options$level, target, options$max_shown, options$intercept, options$standardized),
    xlab = if (options$standardized) "coefficient per standard deviation" else "coefficient",
    main = sprintf("%s: %g %% intervals", object$targets[target], 100 * options$level)
  )
}

inclusion_picture <- function(object, options) {
  p <- shown_inclusion(object, options$intercept, options$max_shown)
  list(
    table = data.frame(term = names(p), inclusion_prob = unname(p)), xlab = "posterior inclusion probability",
    main = object$targets
  )
}

# Probabilities of the rows: of a selection those of the fit to all rows.
shown_probabilities <- function(object) {
  check_rows(object)
  trials <- object$trials * (object$weights %||% 1)
  in_sample <- inherits(object, "spike_slab")
  list(
    in_sample = in_sample, share = if (in_sample) unname(object$fitted.values) else object$loo_probabilities,
    events = trials * unname(object$fitted.values + object$residuals), trials = trials
  )
}

calibration_picture <- function(object, options) {
  rows <- shown_probabilities(object)
  list(
    table = calibration_points(rows$share, rows$events, rows$trials, check_count(options$bins, "bins")),
    xlab = if (rows$in_sample) "fitted probability" else "leave-one-out probability",
    ylab = paste("share of", object$event),
    main = paste0(object$targets, ": calibration", if (rows$in_sample) ", in-sample")
  )
}

roc_picture <- function(object, options) {
  rows <- shown_probabilities(object)
  table <- roc_points(rows$share, rows$events, rows$trials - rows$events)
  both <- table$true_positive[-1L] + table$true_positive[-nrow(table)]
  list(
    table = table, xlab = "false positive rate", ylab = "true positive rate",
    main = sprintf(
      "%s: %s ROC curve, area %.3f", object$targets, if (rows$in_sample) "in-sample" else "leave-one-out",
      sum(diff(table$false_positive) * both / 2)
    )
  )
}

# Effects of groups, those of a grouping factor together in ascending order: the most extreme ones of each, if there are more than
# are shown.
random_effects_picture <- function(object, options) {
  check_level(options$level)
  target <- target_position(object, options$target)
  found <- effects_of_groups(object, target, tails(options$level))
  found$name <- unlist(lapply(group_bands_of(object), `[[`, "columns"))
  bands <- rep(seq_along(group_bands_of(object)), lengths(lapply(group_bands_of(object), `[[`, "columns")))
  each <- max(1, options$max_shown %/% max(bands))
  keep <- unlist(lapply(rev(split(seq_along(bands), bands)), function(at) {
    at <- at[order(-abs(found$mean[at]))][seq_len(min(each, length(at)))]
    at[order(found$mean[at])]
  }))
  list(
    table = data.frame(term = found$name, estimate = found$mean, lower = found$lower, upper = found$upper)[keep, ], xlab = "effect of the group",
    main = sprintf("%s: %g %% intervals", object$targets[target], 100 * options$level)
  )
}

# Coefficients as they are shown, the last first: those of the largest standardised size, in the order of the model.
shown_coefficients <- function(x, level, target, max_shown, intercept, standardized) {
  names <- coefficient_names(x)
  unit <- rep(1, length(names))
  if (standardized) {
    unit[x$posterior$at] <- x$posterior$sd
  }
  keep <- which(intercept | names != "(Intercept)")
  size <- standardized_size(x)[, target]
  keep <- keep[order(-size[keep])][seq_len(min(max_shown, length(keep)))]
  keep <- rev(sort(keep))
  ends <- coefficient_intervals(x, target, tails(level), keep) * unit[keep]
  data.frame(
    term = names[keep], estimate = unname(as.matrix(x$coefficients)[keep, target] * unit[keep]),
    lower = ends[, 1L], upper = ends[, 2L]
  )
}

# Inclusion probabilities as they are shown, likewise.
shown_inclusion <- function(x, intercept, max_shown) {
  p <- inclusion_bars(x, intercept)
  keep <- order(-p)[seq_len(min(max_shown, length(p)))]
  p[rev(sort(keep))]
}

# Inclusion probabilities as they are shown: of every term or group once, in the order of the model, unpenalised columns
# among them.
inclusion_bars <- function(x, intercept) {
  p <- x$inclusion_prob
  if (!is.null(x$posterior$groups)) {
    of_group <- inclusion_prob(x, by = "group")
    certain <- setdiff(names(p)[x$posterior$z_at], names(of_group))
    p <- c(p[certain], of_group)
  }
  if (intercept) p else p[names(p) != "(Intercept)"]
}

# Shares of failures and of events whose probability is at least a threshold, for every threshold.
roc_points <- function(share, events, failures) {
  sums <- rowsum(cbind(failures, events), -share)
  reached <- apply(rbind(0, sums), 2L, cumsum)
  data.frame(false_positive = reached[, 1L] / sum(failures), true_positive = reached[, 2L] / sum(events))
}

# Mean probability and share of events in bins of equally many trials, with Clopper-Pearson 95 % intervals.
calibration_points <- function(share, events, trials, bins) {
  sorted <- order(share)
  middle <- (cumsum(trials[sorted]) - 0.5 * trials[sorted]) / sum(trials)
  bin <- pmin(floor(middle * bins), bins - 1)
  sums <- rowsum(cbind(trials * share, events, trials)[sorted, , drop = FALSE], bin)
  up <- sums[, 2L]
  down <- sums[, 3L] - up
  data.frame(
    probability = sums[, 1L] / sums[, 3L], share = up / sums[, 3L],
    lower = ifelse(up > 0, stats::qbeta(0.025, pmax(up, 1e-9), down + 1), 0),
    upper = ifelse(down > 0, stats::qbeta(0.975, up + 1, pmax(down, 1e-9)), 1)
  )
}

# What each picture shows, and how it is drawn by base graphics (in plot.R, which R reads later) and by 'ggplot2'.
pictures <- list(
  inclusion = list(
    shows = inclusion_picture,
    draw = function(shown, given) draw_inclusion(shown, given),
    ggplot = inclusion_ggplot
  ),
  coefficients = list(
    shows = coefficient_picture,
    draw = function(shown, given) draw_coefficients(shown, given),
    ggplot = coefficient_ggplot
  ),
  random_effects = list(
    shows = random_effects_picture,
    draw = function(shown, given) draw_coefficients(shown, given),
    ggplot = coefficient_ggplot
  ),
  calibration = list(
    shows = calibration_picture,
    draw = function(shown, given) draw_calibration(shown, given),
    ggplot = calibration_ggplot
  ),
  roc = list(
    shows = roc_picture,
    draw = function(shown, given) draw_roc(shown, given),
    ggplot = roc_ggplot
  )
)
