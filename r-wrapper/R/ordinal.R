# Ordered categories: the probability of a category up to the k-th is F(cut point k - linear predictor). Cut points are unpenalised
# columns of the posterior, whose positions follow those of the coefficients; the linear predictor has none of them.

has_cuts <- function(object) isTRUE(family_of(object)$cuts)

# Positions of the cut points.
cut_positions <- function(object) length(coefficient_names(object)) + seq_len(if (has_cuts(object)) length(object$categories) - 1L else 0L)

cut_names <- function(object) {
  if (has_cuts(object)) paste(object$categories[-length(object$categories)], object$categories[-1L], sep = "|")
}

no_order <- paste0(
  " no order: make it ordered, from the lowest category to the highest, as with factor(response, levels = c(\"low\", \"middle\", \"high\"), ",
  "ordered = TRUE), or give whole numbers"
)

# Categories as codes from 0 in `y` (n x 1), and their `levels` in order.
ordered_response <- function(y, name) {
  if (is.data.frame(y)) y <- if (length(y) == 1L) y[[1L]] else as.matrix(y)
  if (length(dim(y)) == 2L && ncol(y) > 1L) {
    stop("an ordinal response is one column of ordered categories, not ", ncol(y), call. = FALSE)
  }
  labels <- if (is.null(dim(y))) names(y) else rownames(y)
  if (is.character(y)) stop("the response is text, which has", no_order, call. = FALSE)
  if (is.factor(y) && !is.ordered(y)) {
    stop("the levels of the response (", quoted(utils::head(levels(y), 5L)), ") have", no_order, call. = FALSE)
  }
  if (!is.ordered(y)) y <- ordered_numbers(y, name)
  check_categories(levels(y), y)
  out <- matrix(as.integer(y) - 1, ncol = 1L, dimnames = list(labels, name))
  check_finite(out, "response")
  list(y = out, levels = as.list(levels(y)))
}

quoted <- function(texts) paste0("'", texts, "'", collapse = ", ")

# Whole numbers, or truth values, as an ordered factor.
ordered_numbers <- function(y, name) {
  if (!(is.numeric(y) || is.logical(y)) || inherits(y, c("Surv", "Date", "POSIXct"))) {
    stop("an ordinal response is an ordered factor or whole numbers, not ", class(y)[1L], call. = FALSE)
  }
  y <- as.vector(y)
  check_finite(matrix(as.double(y), ncol = 1L, dimnames = list(NULL, name)), "response")
  if (any(y != round(y))) {
    stop(
      "an ordinal response has whole numbers as categories, and this one has fractions: put them into categories by cut(), with ",
      "ordered_result = TRUE, or leave out 'family'",
      call. = FALSE
    )
  }
  values <- sort(unique(y))
  factor(y, values, format(values, trim = TRUE, scientific = FALSE, digits = 15L), ordered = TRUE)
}

check_categories <- function(levels, y) {
  empty <- levels[!levels %in% y]
  if (length(levels) - length(empty) < 2L) {
    stop("all responses are ", quoted(setdiff(levels, empty)), ": an ordinal model needs at least two categories", call. = FALSE)
  }
  if (length(empty)) {
    stop(
      "the response has no row of the category ", quoted(empty), ", so that its cut points are not determined: give data without ",
      "the level, as with data = droplevels(data[rows, ]), or combine categories",
      call. = FALSE
    )
  }
}

# The response of a model frame, of ordered categories with levels that no row has.
response_of_frame_call <- function(frame, frame_call, env, family) {
  if (isTRUE(families[[family]]$cuts)) {
    frame_call$drop.unused.levels <- FALSE
    frame <- eval(frame_call, env)
  }
  stats::model.response(frame)
}

# Expectation propagation needs a likelihood of factors, each of one linear function, which the normal distribution function has not.
refuse_no_factors <- function(family, method, solver) {
  by_propagation <- method == "ep" || method %in% c("em", "loocv", "fixed") && solver == "ep"
  if (isTRUE(families[[family$name]]$cuts) && family$link == "probit" && by_propagation) {
    stop(
      "with link = \"probit\" ordered categories are fitted by Laplace's approximation: use ",
      if (method == "ep") "method = \"laplace\"" else "solver = \"laplace\"",
      call. = FALSE
    )
  }
}

# Probabilities of the categories with their names.
category_matrix <- function(values, rows, categories) {
  if (!is.null(values)) matrix(values, nrow(values), dimnames = list(rows, as.character(unlist(categories))))
}

# The family as of stats::family(), as far as it has one.
ordinal_object <- function(link) {
  functions <- unclass(stats::make.link(link))[c("linkfun", "linkinv")]
  structure(c(list(family = "ordinal", link = link), functions), class = "family")
}

# Refuses what ordered categories have not.
refuse_categories <- function(object, what) {
  if (has_cuts(object)) {
    stop(
      what, "() is not defined for ordered categories, which are no numbers: predict() returns their probabilities, and ppc() and ",
      "loo() check the fit",
      call. = FALSE
    )
  }
}

# Refuses predictions of responses that would be one number for each row.
refuse_one_number <- function(object, type, what, linear = "link") {
  if (has_cuts(object) && type != "link") {
    stop(
      "ordered categories have a probability each and no mean: use ", what, " = \"", linear, "\" for the linear predictor, or predict() ",
      "for the probabilities",
      call. = FALSE
    )
  }
}

#' Cut points of ordered categories
#'
#' Posterior of the cut points of a fit with `family = "ordinal"`: where on the scale of the linear predictor categories change. The
#' probability of a category up to the k-th is the logistic or the normal distribution function of the k-th cut point less the linear
#' predictor. Python is not required.
#'
#' @param object A fit of [bayes_ridge()] with `family = "ordinal"`.
#' @param level Probability of the credible intervals.
#' @param ... Not used: further arguments raise an error.
#' @return A data frame with a row for each cut point, named by the categories on either side, such as `low|middle`: `mean` (the
#'   median if no mean exists), `sd`, `lower` and `upper`.
#' @seealso [posterior_sample()], which draws them with `hyper = TRUE`.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(factor(gear, ordered = TRUE) ~ wt + hp, data = mtcars, family = "ordinal")
#' cut_points(fit)
#' predict(fit, mtcars[1:3, ])
#' @export
cut_points <- function(object, level = 0.95, ...) {
  refuse_dots("cut_points", ...)
  if (!inherits(object, "pybayesridge_fit") || !has_cuts(object)) {
    stop("cut_points() is for fits of bayes_ridge() with family = \"ordinal\"", call. = FALSE)
  }
  check_level(level)
  post <- object$posterior
  f <- some_functionals(functionals_of_z(post), match(cut_positions(object), post$z_at))
  each <- mixture_of(f, components(post), post)
  mean <- drop(each$where %*% each$weight)
  sd <- sqrt(drop((each$scale2 + (each$where - mean)^2) %*% each$weight))
  points <- functional_quantiles(f, post, 1L, c(0.5, tails(level)))
  out <- data.frame(
    mean = if (isFALSE(post$has_mean)) points[, 1L] else mean, sd = if (isFALSE(post$has_variance)) Inf else sd,
    lower = points[, 2L], upper = points[, 3L], row.names = cut_names(object)
  )
  posterior_table(out)
}

# Posterior means of the probabilities of the categories at rows of the model matrix, m x K.
category_probabilities <- function(object, x, unseen = NULL) {
  post <- object$posterior
  split <- split_rows(object, x)
  below <- vapply(match(cut_positions(object), post$z_at), function(at) {
    z <- -split$z
    z[, at] <- 1
    f <- c(functionals(post, -split$x, z), if (!is.null(unseen)) list(unseen = unseen))
    probability_moments(f, post, object$link, FALSE, normal_moments)$fit
  }, numeric(nrow(x)))
  shares_between(matrix(below, nrow(x), length(cut_positions(object))))
}

# Probabilities of the categories from those up to each, but for the last.
shares_between <- function(below) {
  rows <- nrow(below)
  pmax(cbind(below, rep(1, rows)) - cbind(rep(0, rows), below), 0)
}

# Draws by which intervals and standard deviations of probabilities are found, as in Python.
draws_of_shares <- 4000L

# Predictions of the categories at rows of the model matrix: for each `fit`, and as they are asked for `lwr`, `upr` and `se.fit`.
category_rows <- function(object, x, probabilities, se.fit, unseen = NULL) {
  share <- category_probabilities(object, x, unseen)
  out <- lapply(seq_along(object$categories), function(k) list(fit = share[, k]))
  names(out) <- object$categories
  if (is.null(probabilities) && !se.fit) {
    return(out)
  }
  ends <- with_seed(0, tails_of_draws(object, x, posterior_draws(object, 1L, draws_of_shares), probabilities %||% c(0.5, 0.5), unseen))
  lapply(stats::setNames(seq_along(out), names(out)), function(k) {
    c(out[[k]], if (!is.null(probabilities)) list(lwr = ends[, k, 1L], upr = ends[, k, 2L]), if (se.fit) list(se.fit = ends[, k, 3L]))
  })
}

# Two quantiles and the standard deviation of drawn probabilities, m x K x 3.
tails_of_draws <- function(object, x, draws, probabilities, unseen = NULL) {
  eta <- as.matrix(x %*% t(draws$coefficients))
  if (!is.null(unseen)) {
    node <- unique(draws$node)
    sd <- sqrt(unseen_at_nodes(object$posterior, unseen, node))[, match(draws$node, node), drop = FALSE]
    eta <- eta + sd * stats::rnorm(length(sd))
  }
  cuts <- as.matrix(draws$hyper[cut_names(object)])
  out <- vapply(seq_len(nrow(x)), function(i) {
    share <- shares_between(link_probability(cuts - eta[i, ], object$link))
    apply(share, 2L, function(one) c(stats::quantile(one, probabilities, names = FALSE), sqrt(mean((one - mean(one))^2))))
  }, matrix(0, 3L, length(object$categories)))
  aperm(out, c(3L, 2L, 1L))
}

# Draws of cut points are at least so far apart, as in Python: their joint law is normal, in which a distance may be negative.
increasing <- 1e-9

increasing_cuts <- function(drawn) {
  out <- drawn
  for (j in seq_len(ncol(drawn))[-1L]) out[, j] <- out[, j - 1L] + pmax(drawn[, j] - drawn[, j - 1L], increasing)
  out
}

# Categories drawn at linear predictors.
draw_categories <- function(eta, cuts, object) {
  noise <- if (object$link == "probit") stats::rnorm(length(eta)) else stats::rlogis(length(eta))
  factor(object$categories[findInterval(eta + noise, cuts) + 1L], object$categories, ordered = TRUE)
}

# Log probabilities of the observed categories at rows of the model matrix.
log_shares <- function(object, x, y) log(category_probabilities(object, x)[cbind(seq_along(y), y + 1)])

# Columns of augment(): probabilities of the categories, one after another.
category_columns <- function(predicted, categories) {
  columns <- function(values, start) {
    out <- as.data.frame(unname(values))
    names(out) <- paste0(start, "_", categories)
    out
  }
  if (length(dim(predicted)) == 2L) {
    return(columns(predicted, ".fitted"))
  }
  each <- Map(function(at, start) columns(matrix(predicted[, at, ], dim(predicted)[1L]), start), 1:3, c(".fitted", ".lower", ".upper"))
  do.call(cbind, each)
}
