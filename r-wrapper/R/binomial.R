# Yes/no responses: what bayes_ridge() and spike_slab() take and keep for them. Methods are in generalized.R; selections are in
# binomial_sets.R.

two_values <- "a binomial response has two values, or two columns cbind(successes, failures), not "

# A yes/no response as `y` (n x 1: codes, or numbers of successes), `levels` of a factor, `trials` of counts, and the
# name of the `event`.
binary_response <- function(y, name) {
  if (is.data.frame(y)) {
    y <- if (length(y) == 1L) y[[1L]] else as.matrix(y)
  }
  if (length(dim(y)) == 2L && ncol(y) > 1L) {
    return(count_response(y, name))
  }
  labels <- if (is.null(dim(y))) names(y) else rownames(y)
  if (is.logical(y) || is.character(y) || is.factor(y)) {
    y <- droplevels(as.factor(y))
    check_two(levels(y))
    out <- list(y = as.integer(y) - 1, levels = as.list(levels(y)), event = levels(y)[2L])
  } else if (is.numeric(y) && !inherits(y, c("Surv", "Date", "POSIXct"))) {
    check_codes(as.vector(y))
    out <- list(y = as.double(y))
  } else {
    stop(two_values, class(y)[1L], call. = FALSE)
  }
  out$y <- matrix(out$y, ncol = 1L, dimnames = list(labels, name))
  check_finite(out$y, "response")
  out
}

check_two <- function(levels) {
  if (length(levels) == 1L) {
    stop("all responses are '", levels, "': a binomial model needs both outcomes", call. = FALSE)
  }
  if (length(levels) > 2L) {
    stop(
      "the response has ", length(levels), " levels (", paste0("'", utils::head(levels, 5L), "'", collapse = ", "),
      "): a binomial response has two. Compare one with the others by I(response == \"", levels[1L], "\")",
      call. = FALSE
    )
  }
}

check_codes <- function(y) {
  y <- y[!is.na(y)]
  if (all(y %in% c(0, 1))) {
    return(invisible())
  }
  stop(
    if (all(y >= 0 & y <= 1)) {
      "the response has fractions: give cbind(successes, failures)"
    } else {
      "the response has numbers other than 0 and 1: make it a factor with two levels, or give cbind(successes, failures)"
    },
    call. = FALSE
  )
}

count_response <- function(y, name) {
  if (ncol(y) != 2L || !is.numeric(y)) {
    stop(two_values, ncol(y), " columns", call. = FALSE)
  }
  y <- unclass(y)
  check_finite(y, "response")
  bad <- which(rowSums(y < 0 | y != round(y)) > 0 | rowSums(y) == 0)
  if (length(bad)) {
    rows <- if (is.null(rownames(y))) bad else rownames(y)[bad]
    stop(
      "cbind(successes, failures) must have whole numbers that are not negative, and at least one trial in each row: not so ",
      "in row(s) ", paste0("'", utils::head(rows, 5L), "'", collapse = ", "),
      call. = FALSE
    )
  }
  event <- colnames(y)[1L]
  list(
    y = matrix(as.double(y[, 1L]), ncol = 1L, dimnames = list(rownames(y), name)),
    trials = as.double(rowSums(y)),
    event = if (length(event) && nzchar(event)) event
  )
}

# The share of events of a response in new data, which may have one of the two levels only.
shares_of_events <- function(values, object) {
  if (!is.null(object$levels)) {
    return(match(as.character(values), unlist(object$levels)) - 1)
  }
  if (length(dim(values)) == 2L) as.double(values[, 1L] / rowSums(values)) else as.double(values)
}
