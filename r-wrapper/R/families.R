# What differs between families of responses, one list for each; `fit` is a fit, `rows` positions of its rows.
#   links      that it has, the default first
#   methods    of bayes_ridge(), the default first; Python says why some are refused
#   takes      arguments of bayes_ridge() and spike_slab() that only some families take
#   selection  whether it has fits of spike_slab()
#   of_object  of a family object that has another name: `name`, `link` and more
#   object     as of stats::family()
#   noise      whether responses have a noise variance
#   title      what stands after the name of the model
#   response   what Python is given of one: `y` (n x 1 or more) and more
#   types      of predictions, the first by default
#   mean       of linear predictors on the scale of the response
#   interval   checks the kind of an interval
#   observed   numbers of a response in new data
#   responses  those of the fit as Python takes them (n x q)
#   pictures   that only it has
#   left_out   log densities of rows predicted from the others
#   keeps      the values of Python's export, besides those of all families, that a fit keeps
#   values     others that are made of these
# and, of families whose responses have no noise variance,
#   moments    of means of responses at functionals: `fit` and `se.fit`; none where the mean is the linear predictor
#   medians    whether these are medians and half the distance of quantiles, where means may be infinite
#   sizes      of rows in residuals
#   inflation  of the variances of rows of several trials, if there is one
#   new        the distribution of new responses, in new_responses.R; none where they have no interval
#   draw       responses at means, of rows of some extent, given `own`, a draw of further parameters (NULL without)
#   ratio_name what exponentials of coefficients are called
#   has_ratio  whether the link is such that they mean something
#   unit       what emmeans calls means
#   latent     variance of the latent noise, given any further parameter
#   shape      of families with a further parameter: what it is called, and the element with its posterior mean
#   within     log of the mean likelihood of rows over components, and the `constant` that it lacks
#   no_sigma   what sigma() says where there is something like it
#   checked_by what checks responses in place of pit()
#   cuts       whether categories lie between cut points (ordinal.R)
families <- list(
  gaussian = list(
    links = "identity",
    methods = c("exact", "em", "loocv", "gcv", "fixed", "reml"),
    takes = c("sigma2", "dof", "accelerate", "noise_var", "damping", "hyper", "start"),
    selection = TRUE,
    object = function(fit) stats::gaussian(),
    noise = TRUE,
    title = function(fit) "",
    response = function(y, name) list(y = as_response(y, name)),
    types = "response",
    mean = function(eta, fit) eta,
    interval = function(interval) check_interval(interval),
    observed = function(values, fit) as.double(values),
    responses = function(fit) {
      y <- .subset2(fit, "y")
      if (is.null(y)) fit_responses(fit) else y
    },
    pictures = NULL,
    left_out = function(fit, target, env) left_out_rows(fit, env, target)
  ),
  binomial = list(
    links = c("logit", "probit"),
    methods = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
    takes = c("solver", "flat_in", "link"),
    selection = TRUE,
    keeps = c("event", "trials", "n_trials", "n_events"),
    object = function(fit) stats::binomial(fit$link),
    noise = FALSE,
    title = function(fit) paste0(", binomial family, ", fit$link, " link"),
    response = function(y, name) binary_response(y, name),
    types = c("response", "link"),
    mean = function(eta, fit) link_probability(eta, fit$link),
    interval = function(interval) check_interval(interval),
    new = function(fit) successes_given(fit, successes_up_to),
    observed = function(values, fit) shares_of_events(values, fit),
    responses = function(fit) round(fit_responses(fit) * fit$trials),
    pictures = c("calibration", "roc"),
    left_out = function(fit, target, env) generalized_left_out(fit, env),
    moments = function(f, fit, se.fit) probability_moments(f, fit$posterior, fit$link, se.fit),
    sizes = function(fit) fit$trials * (fit$weights %||% 1),
    draw = function(mean, extent, fit, own) {
      drawn <- stats::rbinom(length(mean), extent %||% 1, mean)
      if (is.null(fit$levels)) drawn else factor(drawn, 0:1, unlist(fit$levels))
    },
    ratio_name = "odds_ratio",
    has_ratio = function(fit) fit$link == "logit",
    unit = "prob",
    latent = function(fit, alpha) if (fit$link == "probit") 1 else pi^2 / 3,
    within = function(each, y, fit, rows) log_within(each, y, fit$trials[rows] - y, fit$link),
    constant = function(y, fit) lchoose(fit$trials, y),
    checked_by = "plot(which = \"calibration\") checks yes/no responses"
  ),
  poisson = list(
    links = "log",
    methods = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
    takes = c("solver", "flat_in", "exposure"),
    selection = TRUE,
    keeps = c("exposure", "n_events", "latent_variance"),
    object = function(fit) stats::poisson(),
    noise = FALSE,
    title = function(fit) ", Poisson family, log link",
    response = function(y, name) counts_response(y, name, "poisson()"),
    types = c("response", "link"),
    mean = function(eta, fit) exp(eta),
    interval = function(interval) check_interval(interval),
    new = function(fit) counts_given(fit, poisson_up_to),
    observed = function(values, fit) as.double(values),
    responses = function(fit) round(fit_responses(fit)),
    pictures = NULL,
    left_out = function(fit, target, env) generalized_left_out(fit, env),
    moments = function(f, fit, se.fit) rate_moments(f, fit$posterior, se.fit),
    medians = TRUE,
    sizes = function(fit) fit$weights %||% 1,
    draw = function(mean, extent, fit, own) stats::rpois(length(mean), pmin(mean, most_drawn)),
    ratio_name = "rate_ratio",
    has_ratio = function(fit) TRUE,
    unit = "rate",
    latent = function(fit, alpha) fit$latent_variance,
    within = function(each, y, fit, rows) {
      exposure <- if (is.null(fit$exposure)) 1 else fit$exposure[rows]
      log_mean_of(log_means_of_counts(each$where, each$scale2, y, exposure), each)
    },
    constant = function(y, fit) stats::dpois(y, y, log = TRUE),
    checked_by = "ppc() checks counts"
  )
)
families[["negative-binomial"]] <- utils::modifyList(families$poisson, list(
  methods = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
  takes = c("solver", "flat_in", "exposure", "dispersion"),
  of_object = function(family) {
    if (is_negative_binomial(family)) list(name = "negative-binomial", link = "log", dispersion = given_dispersion(family))
  },
  keeps = c(families$poisson$keeps, "dispersion", "dispersion_mean"),
  object = function(fit) negative_binomial_object(fit$dispersion),
  title = function(fit) ", negative binomial family, log link",
  response = function(y, name) counts_response(y, name, "\"negative-binomial\""),
  new = function(fit) counts_given(fit, overdispersed_up_to),
  draw = function(mean, extent, fit, own) draw_overdispersed(mean, own$alpha %||% fit$dispersion),
  shape = c(name = "alpha", mean = "dispersion_mean"),
  latent = function(fit, alpha) latent_of_overdispersed(fit, alpha %||% fit$dispersion),
  within = function(each, y, fit, rows) {
    exposure <- if (is.null(fit$exposure)) 1 else fit$exposure[rows]
    log_mean_of(log_means_of_overdispersed(each$where, each$scale2, y, exposure, alpha_of_nodes(fit)), each)
  },
  constant = function(y, fit) numeric(length(y))
))
families[["beta-binomial"]] <- utils::modifyList(families$binomial, list(
  links = "logit",
  methods = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
  takes = c("solver", "flat_in", "dispersion"),
  selection = FALSE,
  keeps = c(families$binomial$keeps, "dispersion", "dispersion_mean"),
  object = function(fit) beta_binomial_object(fit$dispersion),
  title = function(fit) ", beta-binomial family, logit link",
  response = function(y, name) beta_binomial_response(y, name),
  new = function(fit) successes_given(fit, shares_up_to),
  draw = function(mean, extent, fit, own) draw_shares(mean, extent %||% 1, own$alpha %||% fit$dispersion),
  shape = c(name = "alpha", mean = "dispersion_mean"),
  inflation = function(fit) 1 + (fit$trials - 1) * fit$dispersion / (1 + fit$dispersion),
  within = function(each, y, fit, rows) {
    log_mean_of(log_means_of_shares(each$where, each$scale2, y, fit$trials[rows] - y, alpha_of_nodes(fit)), each)
  },
  checked_by = "plot(which = \"calibration\") checks shares of trials"
))
families[["student-t"]] <- list(
  links = "identity",
  methods = c("ep", "laplace", "exact", "gcv", "em", "loocv", "fixed"),
  takes = c("solver", "df"),
  keeps = c("noise_scale", "noise_scale_mean", "noise_df"),
  object = function(fit) student_object(fit$noise_scale, fit$noise_df),
  noise = FALSE,
  title = function(fit) ", Student-t noise",
  response = function(y, name) one_response(y, name, "\"student-t\""),
  types = c("response", "link"),
  mean = function(eta, fit) eta,
  interval = function(interval) check_interval(interval),
  new = function(fit) student_given(fit),
  observed = function(values, fit) as.double(values),
  responses = function(fit) fit_responses(fit),
  pictures = NULL,
  left_out = function(fit, target, env) generalized_left_out(fit, env),
  sizes = function(fit) fit$weights %||% 1,
  draw = function(mean, extent, fit, own) mean + own$sigma * stats::rt(length(mean), own$df %||% fit$noise_df),
  shape = c(name = "sigma", mean = "noise_scale_mean"),
  has_ratio = function(fit) FALSE,
  latent = function(fit, shape) shape^2,
  within = function(each, y, fit, rows) log_mean_of(log_means_of_student(each$where, each$scale2, y, scale_of_nodes(fit)), each),
  constant = function(y, fit) numeric(length(y)),
  no_sigma = "hyperparameters() returns the scale and the degrees of freedom of its noise",
  checked_by = "ppc() checks responses with Student-t noise"
)
families[["ordinal"]] <- list(
  links = c("logit", "probit"),
  methods = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
  takes = c("solver", "flat_in", "link"),
  keeps = c("category_counts", "codes"),
  values = function(value, rows) {
    list(
      categories = as.character(unlist(value$categories)),
      fitted.values = category_matrix(value[["probabilities"]], rows, value$categories),
      linear.predictors = if (!is.null(value[["linear_predictors"]])) as.vector(value$linear_predictors)
    )
  },
  object = function(fit) ordinal_object(fit$link),
  noise = FALSE,
  title = function(fit) paste0(", ordinal family, ", fit$link, " link"),
  response = function(y, name) ordered_response(y, name),
  types = c("response", "link"),
  mean = function(eta, fit) eta,
  interval = function(interval) {
    check_mean_interval(interval, "a new response is one of the categories and has no interval", "probability")
  },
  observed = function(values, fit) match(as.character(values), fit$categories) - 1,
  responses = function(fit) matrix(fit$codes, ncol = 1L),
  pictures = NULL,
  left_out = function(fit, target, env) generalized_left_out(fit, env),
  sizes = function(fit) fit$weights %||% 1,
  draw = function(mean, extent, fit, own) draw_categories(mean, unlist(own[cut_names(fit)]), fit),
  ratio_name = "odds_ratio",
  has_ratio = function(fit) fit$link == "logit",
  latent = function(fit, shape) if (fit$link == "probit") 1 else pi^2 / 3,
  constant = function(y, fit) numeric(length(y)),
  checked_by = "ppc() checks ordered categories",
  cuts = TRUE
)

family_of <- function(object) families[[.subset2(object, "distribution") %||% "gaussian"]]

# Names of the families of which something is true.
families_with <- function(true) names(Filter(true, families))
of_selection <- function() families_with(function(family) isTRUE(family$selection))
taking <- function(argument) families_with(function(family) argument %in% family$takes)

# The `name` and the `link` of a family, which is as in glm(); one of `known`. A family that is named may have its link beside it.
chosen_family <- function(family, known = names(families), link = NULL) {
  if (is.function(family)) family <- family()
  if (is.character(family) && length(family) == 1L && family %in% known) {
    return(list(name = family, link = chosen_link(family, link)))
  }
  if (!is.null(link)) {
    stop("give the link once: by the family, as in binomial(\"probit\"), or by 'link' with the name of the family", call. = FALSE)
  }
  for (one in families[known]) {
    found <- if (inherits(family, "family") && !is.null(one$of_object)) one$of_object(family)
    if (!is.null(found)) {
      return(found)
    }
  }
  given <- if (inherits(family, "family")) paste0(family$family, "(\"", family$link, "\")")
  if (is.null(given) || !family$family %in% known || !family$link %in% families[[family$family]]$links) {
    calls <- unlist(lapply(known, function(name) {
      links <- families[[name]]$links
      c(told_family(name), if (length(links) > 1L && has_constructor(name)) paste0(name, "(\"", links[-1L], "\")"))
    }))
    stop(
      "'family' must be ", either(calls), if (is.null(given)) ", or one of their names" else paste0(", not ", given),
      call. = FALSE
    )
  }
  list(name = family$family, link = family$link)
}

# The link of a family by name: the first of its links, or the one that is given.
chosen_link <- function(family, link) {
  links <- families[[family]]$links
  if (is.null(link) || length(links) == 1L) {
    return(links[1L])
  }
  if (!is.character(link) || length(link) != 1L || !link %in% links) {
    stop("'link' must be ", either(paste0("\"", links, "\"")), " for family = ", told_family(family), call. = FALSE)
  }
  link
}

either <- function(words) {
  last <- length(words)
  if (last < 2L) words else paste(paste(words[-last], collapse = ", "), words[last], sep = " or ")
}

# How a family is written.
told_family <- function(name) if (has_constructor(name)) paste0(name, "()") else paste0("\"", name, "\"")

# Whether R has a function that makes the family.
has_constructor <- function(name) exists(name, asNamespace("stats"), mode = "function", inherits = FALSE)

# Arguments in `call` that are of other families.
refuse_other_families <- function(call, name) {
  of_some <- unlist(lapply(families, `[[`, "takes"))
  for (given in setdiff(intersect(of_some, names(call)), families[[name]]$takes)) {
    stop("'", given, "' is for family = ", either(vapply(taking(given), told_family, "")), ": leave it out", call. = FALSE)
  }
}

# Fitted values and residuals, n x q.
fit_responses <- function(object) as.matrix(object$fitted.values) + as.matrix(object$residuals)
