#' Bayesian variable selection with a spike-and-slab prior
#'
#' Posterior inclusion probabilities and coefficients under a spike-and-slab prior, computed exactly (by a sum over all
#' sets of columns, or by Monte Carlo with stated standard errors) or by expectation propagation.
#'
#' @details Let \eqn{Z} contain the unpenalised columns (at least the intercept), which have a flat prior and are always
#'   included, and \eqn{X} the other columns. The model is
#'
#' \deqn{y \sim N(Z g + X w, \sigma^2 W^{-1}), \quad w_i \sim p_i N(0, v) + (1 - p_i) \delta_0.}
#'
#' The prior refers to columns divided by their standard deviation, unless `standardize = FALSE`. All results are in the
#' units of the data.
#'
#' The model is fitted by Python, see [install_pybayesridge()]. The fit is a list of plain R values, and its methods
#' (see [pybayesridge-methods]) do not require Python. `confint()` returns quantiles of the posterior mixture of a point
#' mass at zero and a continuous distribution.
#'
#' Hyperparameters that are not given are learned. At the prior median of the inclusion probability one included column is
#' expected (see `expected_size`), and the tail probability that more than m columns are included is of the order 1/m,
#' whether or not variances are given. If `slab_var` is learned, the share of variance that the hyperparameters expect
#' the columns to explain is uniform; if it is given and `noise_var` is not, that share at the median is.
#'
#' `method = "exact"` computes the posterior distribution of the set of included columns, with the hyperparameters that
#' are not given integrated out. With at most 15 columns or groups the posterior is a sum
#' over all sets. With more it is computed by Markov chain Monte Carlo, which stops if the Monte Carlo standard error of
#' every inclusion probability is at most `mcse`; see [inclusion_se()]. The fit keeps at most 4,000 sets of columns and
#' hyperparameters, from which `confint()`, `predict()`, [credible_sets()] and [posterior_sample()] are computed.
#'
#' With `family = binomial()` the responses are those of [bayes_ridge()], \eqn{y \sim Binomial(m, F(Z g + X w))} with
#' \eqn{F} the logistic (`binomial()`) or the normal (`binomial("probit")`) distribution function. Coefficients are on the
#' scale of the link, see [odds_ratios()]; `predict()` returns probabilities, and weights are frequency weights. The
#' posterior by `"exact"` is always sampled, also for few columns: given auxiliary variables (Polya-Gamma variables, or latent
#' normal responses) the model is Gaussian. The sampler gives no log evidence. With `"ep"` the likelihood of each row and the
#' prior of each column are replaced by normal factors, and the hyperparameters that are not given are averaged over: it has
#' the log evidence and no Monte Carlo error. There is no noise variance.
#'
#' With `family = poisson()` the responses are counts, with the exposures of [bayes_ridge()]; coefficients are log rate ratios, see
#' [rate_ratios()]. Expectation propagation is the only method. `family = "negative-binomial"` is the same for counts that vary more:
#' the dispersion \eqn{\alpha} is integrated out under the prior of [bayes_ridge()], and [hyperparameters()] returns its posterior, unless
#' `MASS::negative.binomial(theta)` or `dispersion` gives it.
#'
#' Expectation propagation (`"ep"`, `"damped"`, `"pcep"`) is deterministic, and its probabilities can be wrong if columns
#' are strongly correlated. For hyperparameters that are not given, `"ep"` averages over a lattice of values, weighted
#' by the evidence and their prior (see `hyper`); `"damped"` and `"pcep"` use the values of the largest posterior density.
#'
#' @inheritParams bayes_ridge
#' @param method `"exact"`: the exact posterior; see the details. `"ep"`: ordinary expectation propagation, followed by a
#'   convergent algorithm if it does not converge; `"damped"`: damped expectation propagation; `"pcep"`: the provably
#'   convergent double loop. `"auto"`: `"exact"`, or `"ep"` if min(n, p) p exceeds 100,000,000;
#'   for `family = binomial()` always `"exact"`.
#' @param prior_inclusion Prior inclusion probability: one number, or one for each column of the model matrix except the
#'   intercept, in their order or by name; 0 excludes a column. If `NULL`, it is learned (integrated out by `"exact"`).
#' @param group Columns that are included or excluded together, with one inclusion probability. `"term"`: with a formula
#'   the columns of a term (a factor, a spline, a polynomial), with `x` and `y` each column separately. `NULL`: each
#'   column separately. Otherwise a label for each column of the model matrix except the intercept, or a list of column
#'   names.
#' @param expected_size Number of columns or groups that are expected to be included at the prior median of the inclusion
#'   probability, if `prior_inclusion` is not given; less than their number. For a single column the default expects one half.
#' @param slab_var Slab variance; if `NULL`, it is learned.
#' @param noise_var Noise variance, for `family = gaussian()`; if `NULL`, it is learned. If the unpenalised columns fit the response
#'   exactly (a constant response with an intercept), the learned noise variance and all other coefficients are 0, with
#'   a warning.
#' @param mcse For `"exact"` with more than 15 columns or groups: the Monte Carlo standard error of an inclusion
#'   probability at which sampling stops.
#' @param chains For `"exact"`: number of chains, from different starts.
#' @param seed For `"exact"`: seed of Python's random numbers, a whole number of at least 0. Fits with the same seed are
#'   identical; the random number generator of the R session is not used.
#' @param tol For expectation propagation: tolerance of the scale-free residual at which the iteration stops.
#' @param maxiter Maximum number of iterations; `NULL` is 1,000, and for `"exact"` 100,000,000 steps of all chains.
#' @param damping For `"damped"`: weight of the new sites in an update.
#' @param hyper For expectation propagation: whether to average over hyperparameters that are not given (`"average"`,
#'   the default of `"ep"`), or to use the values of the largest posterior density as known (`"maximize"`, the default of
#'   `"damped"` and `"pcep"`), which is less well calibrated for few rows.
#' @param family `gaussian()`, `binomial()`, `binomial("probit")`, `poisson()`, `MASS::negative.binomial(theta)`, or a name: `"gaussian"`, `"binomial"`, `"poisson"`,
#'   `"negative-binomial"`.
#' @param exposure For `family = poisson()` and `"negative-binomial"`: as in [bayes_ridge()].
#' @param dispersion For `family = "negative-binomial"`: \eqn{\alpha}, if it is known. By default it is integrated out.
#' @param start For expectation propagation: a fit of the same columns that provides starting values.
#'
#' @return A list of class `"spike_slab"` (for other families than `gaussian()` also `"pybayesridge_generalized"`). It has the elements of [bayes_ridge()] except those of the penalty, and among
#'   others
#'   \describe{
#'     \item{inclusion_prob}{posterior inclusion probabilities (1 for unpenalised columns); see [inclusion_prob()]}
#'     \item{group_inclusion_prob}{posterior inclusion probabilities of groups; see `inclusion_prob(by = "group")`}
#'     \item{cond_mean, cond_var}{mean and variance of each coefficient conditional on inclusion}
#'     \item{log_evidence}{log marginal likelihood, also returned by `logLik()`: approximate for expectation
#'       propagation; hyperparameters that are not given are integrated out, except with `hyper = "maximize"`,
#'       `"damped"` or `"pcep"`}
#'     \item{prior_inclusion, slab_var, noise_var, learned, integrated}{the hyperparameters (posterior means if
#'       integrated out), the names of those that were learned, and whether these are integrated out; see [hyperparameters()]}
#'     \item{inclusion_se, group_inclusion_se, log_evidence_se}{for `"exact"`: Monte Carlo standard errors, 0 for a sum over all sets}
#'     \item{expected_size}{expected number of included columns, excluding unpenalised columns}
#'     \item{residual, n_fac, evidence_biased, energy_trace}{diagnostics of expectation propagation; for `"exact"` the
#'       residual is the largest standard error of an inclusion probability}
#'     \item{enumerated, agreement, effective}{diagnostics of `"exact"`: whether the posterior is a sum over all sets,
#'       the potential scale reduction factor of the chains, and the effective number of draws}
#'     \item{monte_carlo}{for `"exact"`: a data frame with a row for each number that was sampled (`quantity`, and `name` if
#'       it is a coefficient's), its `estimate`, Monte Carlo standard error `mcse`, the number of independent draws with that
#'       error (`effective`) and the potential scale reduction factor of the walkers (`agreement`)}
#'     \item{link, exposure, n_events, linear.predictors}{for `family = poisson()` and `"negative-binomial"`: the link, the exposures if
#'       there are any, the sum of the counts, and the linear predictors at the coefficients}
#'     \item{dispersion, dispersion_mean}{for `family = "negative-binomial"`: \eqn{\alpha} as it was given, or the exponential of the
#'       posterior mean of its logarithm, and its posterior mean}
#'     \item{event, link, n_trials, n_events, linear.predictors}{for `family = binomial()`: the event whose probability is
#'       modelled, the link, the numbers of trials and events, and the linear predictors at the coefficients; there is no
#'       `noise_var`, and by `"exact"` there are no `log_evidence`, `log_evidence_se`, `n_fac`, `evidence_biased` and
#'       `energy_trace`}
#'   }
#' @references Hernandez-Lobato and Hernandez-Lobato (2011). Convergent Expectation Propagation in Linear Models with
#'   Spike-and-slab Priors. arXiv:1112.2289.
#' @seealso [bayes_ridge()], [inclusion_prob()], [median_model()], [credible_sets()], [pybayesridge-methods]
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- spike_slab(mpg ~ ., data = mtcars)
#' summary(fit)
#' inclusion_prob(fit)
#' median_model(fit)
#'
#' hyperparameters(fit)
#' top_models(fit, 3)
#' @export
spike_slab <- function(formula, data, subset, weights, na.action, method = c("auto", "exact", "ep", "damped", "pcep"),
                       family = "gaussian", x = NULL, y = NULL, intercept = TRUE, unpenalized = NULL, standardize = TRUE,
                       group = "term", prior_inclusion = NULL, slab_var = NULL, noise_var = NULL, expected_size = 1,
                       mcse = 0.01, chains = 4, seed = 0, tol = 1e-4, maxiter = NULL,
                       damping = 0.5, hyper = NULL, start = NULL, exposure = NULL, dispersion = NULL, contrasts = NULL,
                       model = NULL, disp = FALSE, ...) {
  refuse_dots("spike_slab", ...)
  call <- match.call()
  method <- match.arg(method)
  family <- chosen_family(family, of_selection())
  gaussian <- family$name == "gaussian"
  refuse_other_families(call, family$name)
  if (!is.null(hyper)) hyper <- match.arg(hyper, c("average", "maximize"))
  keeps_data(model, 0)
  input <- if (missing(formula)) {
    refuse_formula_arguments(call)
    matrix_input(
      x, y, if (missing(weights)) NULL else weights, check_flag(intercept, "intercept"), family = family$name,
      exposure = if (missing(exposure)) NULL else exposure
    )
  } else {
    refuse_both(x, y)
    check_formula(formula, "spike_slab", data)
    formula_input(call, parent.frame(), contrasts, if (!missing(intercept)) intercept, family = family$name)
  }
  refuse_several(input$y)
  settings <- list(
    family = "spike_slab",
    model = list(
      intercept = input$intercept,
      unpenalized = resolve_unpenalized(unpenalized, input),
      standardize = check_flag(standardize, "standardize"),
      prior_inclusion = resolve_inclusion(prior_inclusion, input),
      slab_var = check_number(slab_var, "slab_var"),
      expected_size = check_number(expected_size, "expected_size")
    ),
    fit = list(
      method = method,
      mcse = check_number(mcse, "mcse"),
      chains = check_number(chains, "chains"),
      rng = check_seed(seed),
      tol = check_number(tol, "tol"),
      maxiter = check_number(maxiter, "maxiter")
    ),
    group = resolve_group(group, input)
  )
  own <- if (!gaussian) {
    list(model = list(
      family = family$name, link = family$link, trials = input$trials, levels = input$levels, exposure = input$exposure,
      dispersion = dispersion_of(family, dispersion)
    ))
  } else {
    list(
      model = list(noise_var = check_number(noise_var, "noise_var")),
      fit = list(damping = check_number(damping, "damping"), hyper = hyper)
    )
  }
  settings$model <- c(settings$model, own$model)
  settings$fit <- c(settings$fit, own$fit)
  without <- as.list(made_in_r(input, model, gaussian, method))
  value <- call_fit(settings, input, start = starting_point(start), without = without, progress = shows_progress(disp))
  fit <- new_fit(value, input, call, settings, model)
  tell_iterations(fit, disp)
}

refuse_several <- function(y) {
  if (ncol(y) > 1L) {
    stop("spike_slab() takes one response, got ", ncol(y), ": fit each on its own, or use bayes_ridge()", call. = FALSE)
  }
}

selection_values <- function(value, names) {
  over <- function(numbers) stats::setNames(as.vector(numbers), names)
  list(
    inclusion_prob = over(value$inclusion_prob),
    group_inclusion_prob = stats::setNames(as.vector(value$group_inclusion_prob), unlist(value$group_labels)),
    several = isTRUE(value$several),
    cond_mean = over(value$cond_mean),
    cond_var = over(value$cond_var),
    prior_inclusion = over(value$prior_inclusion),
    log_evidence = value$log_evidence,
    slab_var = value$slab_var,
    noise_var = value$noise_var,
    learned = as.character(unlist(value$learned)),
    integrated = isTRUE(value$integrated),
    expected_size = value$expected_size,
    residual = value$residual,
    n_fac = as.integer(value$n_fac),
    evidence_biased = value$evidence_biased,
    energy_trace = as.vector(value$energy_trace),
    inclusion_se = if (!is.null(value$inclusion_se)) over(value$inclusion_se),
    group_inclusion_se = if (!is.null(value$group_inclusion_se)) {
      stats::setNames(as.vector(value$group_inclusion_se), unlist(value$group_labels))
    },
    log_evidence_se = value$log_evidence_se,
    enumerated = value$enumerated,
    agreement = value$agreement,
    effective = value$effective,
    monte_carlo = monte_carlo_frame(value$monte_carlo),
    start = plain_tree(value$start)
  )
}

# Estimates and their Monte Carlo errors, a row for each.
monte_carlo_frame <- function(lists) {
  if (is.null(lists)) {
    return(NULL)
  }
  text <- function(name) as.character(unlist(lists[[name]]))
  number <- function(name) as.vector(lists[[name]])
  data.frame(
    quantity = text("quantity"), name = text("name"), estimate = number("estimate"), mcse = number("mcse"),
    effective = number("effective"), agreement = number("agreement")
  )
}

# A label for each column of x, as Python wants them; NULL for columns on their own.
resolve_group <- function(group, input) {
  columns <- colnames(input$x)
  of_formula <- !is.null(input$terms)
  if (is.null(group) || (identical(group, "term") && !of_formula)) {
    return(NULL)
  }
  if (identical(group, "term")) {
    return(as.list(c("(Intercept)", attr(input$terms, "term.labels"))[input$assign + 1L]))
  }
  if (is.list(group)) {
    return(group_of_lists(group, columns))
  }
  intercept <- of_formula & columns %in% "(Intercept)"
  width <- ncol(input$x) - sum(intercept)
  if (!(is.character(group) || is.numeric(group) || is.factor(group)) || length(group) != width || anyNA(group)) {
    stop(
      sprintf("'group' must be \"term\", NULL, a list of names of columns, or %d labels", width),
      call. = FALSE
    )
  }
  labels <- rep("(Intercept)", ncol(input$x))
  labels[if (length(intercept)) !intercept else TRUE] <- as.character(group)
  as.list(labels)
}

group_of_lists <- function(group, columns) {
  if (is.null(columns)) {
    stop("'group' is a list of names, and the columns of x have none: give labels", call. = FALSE)
  }
  labels <- columns
  given <- if (is.null(names(group))) character(length(group)) else names(group)
  for (i in seq_along(group)) {
    written <- as.character(group[[i]])
    members <- columns[match_names(written, columns)]
    unknown <- written[is.na(members)]
    if (length(unknown)) {
      stop(
        "'group' names ", paste0("'", unknown, "'", collapse = ", "), ", which are not columns",
        did_you_mean(unknown[1L], columns),
        call. = FALSE
      )
    }
    twice <- intersect(members, unlist(group[seq_len(i - 1L)]))
    if (length(twice)) {
      stop("'group' has ", paste0("'", twice, "'", collapse = ", "), " twice: one group each", call. = FALSE)
    }
    label <- if (nzchar(given[i])) given[i] else paste(members, collapse = " + ")
    if (label %in% setdiff(columns, members)) {
      stop("the group '", label, "' has the name of a column outside it: choose another", call. = FALSE)
    }
    labels[match(members, columns)] <- label
  }
  as.list(labels)
}

starting_point <- function(start) {
  if (is.null(start)) {
    return(NULL)
  }
  if (!inherits(start, "spike_slab") || is.null(start$start)) {
    stop("'start' must be a fit of spike_slab() with family = gaussian()", call. = FALSE)
  }
  point <- start$start
  point$columns <- as.list(point$columns)
  point
}

# Prior probabilities as Python wants them: one number, or one for each column by name.
resolve_inclusion <- function(prior_inclusion, input) {
  if (is.null(prior_inclusion)) {
    return(NULL)
  }
  p <- check_numbers(prior_inclusion, "prior_inclusion")
  if (length(p) == 1L && is.null(names(prior_inclusion))) {
    return(p)
  }
  columns <- colnames(input$x)
  own <- columns[!(!is.null(input$terms) & columns %in% "(Intercept)")]
  names(p) <- names(prior_inclusion)
  if (is.null(names(p))) {
    width <- if (is.null(columns)) ncol(input$x) else length(own)
    if (length(p) != width) {
      stop(
        sprintf("'prior_inclusion' has length %d, and there are %d columns other than the intercept", length(p), width),
        call. = FALSE
      )
    }
    if (is.null(columns)) {
      return(as.list(p))
    }
    names(p) <- own
  }
  found <- own[match_names(names(p), own)]
  names(p) <- ifelse(is.na(found), names(p), found)
  if (length(own) < length(columns)) p <- c("(Intercept)" = 1, p)
  as.list(p)
}

#' Inclusion probabilities and the median probability model
#'
#' @param object A fit of [spike_slab()]; for `inclusion_prob()` also one of [fit_imputed()].
#' @param by Whether to return the probabilities of all coefficients or of the groups (with a formula its terms),
#'   excluding unpenalised columns.
#' @param ... Not used: further arguments raise an error.
#' @return `inclusion_prob()`: posterior inclusion probabilities, a named vector. `median_model()`: the names of the
#'   columns with an inclusion probability above one half, excluding the intercept and unpenalised columns.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- spike_slab(mpg ~ ., data = mtcars)
#' sort(inclusion_prob(fit), decreasing = TRUE)
#' median_model(fit)
#' @export
inclusion_prob <- function(object, ...) UseMethod("inclusion_prob")

#' @rdname inclusion_prob
#' @export
inclusion_prob.default <- function(object, ...) check_selection(object, "inclusion_prob")

#' @rdname inclusion_prob
#' @export
inclusion_prob.spike_slab <- function(object, by = c("column", "group"), ...) {
  refuse_dots("inclusion_prob", ...)
  if (match.arg(by) == "column") object$inclusion_prob else object$group_inclusion_prob
}

#' @rdname inclusion_prob
#' @export
median_model <- function(object, ...) {
  refuse_dots("median_model", ...)
  p <- inclusion_prob(object)
  one <- if (inherits(object, "pybayesridge_pooled")) object$fits[[1L]] else object
  p <- p[sort(one$posterior$at)]
  names(p)[p > 0.5]
}
