# What differs between families of responses, one list for each; `fit` is a fit, `rows` positions of its rows.
#   links      that it has, the default first
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
# and, of families whose responses have no noise variance,
#   moments    of means of responses at functionals: `fit` and `se.fit`; none where the mean is the linear predictor
#   medians    whether these are medians and half the distance of quantiles, where means may be infinite
#   sizes      of rows in residuals
#   inflation  of the variances of rows of several trials, if there is one
#   draw       responses at means, of rows of some extent, given `own`, a draw of further parameters (NULL without)
#   ratio_name what exponentials of coefficients are called
#   has_ratio  whether the link is such that they mean something
#   unit       what emmeans calls means
#   latent     variance of the latent noise, given any further parameter
#   shape      of families with a further parameter: what it is called, and the element with its posterior mean
#   within     log of the mean likelihood of rows over components, and the `constant` that it lacks
#   cuts       whether categories lie between cut points (ordinal.R)
families <- list(
  gaussian = list(
    links = "identity",
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
    object = function(fit) stats::binomial(fit$link),
    noise = FALSE,
    title = function(fit) paste0(", binomial family, ", fit$link, " link"),
    response = function(y, name) binary_response(y, name),
    types = c("response", "link"),
    mean = function(eta, fit) link_probability(eta, fit$link),
    interval = function(interval) {
      check_mean_interval(interval, "a new response is one of two values and has no interval", "probability")
    },
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
    constant = function(y, fit) lchoose(fit$trials, y)
  ),
  poisson = list(
    links = "log",
    object = function(fit) stats::poisson(),
    noise = FALSE,
    title = function(fit) ", Poisson family, log link",
    response = function(y, name) counts_response(y, name, "poisson()"),
    types = c("response", "link"),
    mean = function(eta, fit) exp(eta),
    interval = function(interval) {
      check_mean_interval(interval, "intervals of new counts are quantiles of simulate()", "expected count")
    },
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
    constant = function(y, fit) stats::dpois(y, y, log = TRUE)
  )
)
families[["negative-binomial"]] <- utils::modifyList(families$poisson, list(
  object = function(fit) negative_binomial_object(fit$dispersion),
  title = function(fit) ", negative binomial family, log link",
  response = function(y, name) counts_response(y, name, "\"negative-binomial\""),
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
  object = function(fit) beta_binomial_object(fit$dispersion),
  title = function(fit) ", beta-binomial family, logit link",
  response = function(y, name) beta_binomial_response(y, name),
  draw = function(mean, extent, fit, own) draw_shares(mean, extent %||% 1, own$alpha %||% fit$dispersion),
  shape = c(name = "alpha", mean = "dispersion_mean"),
  inflation = function(fit) 1 + (fit$trials - 1) * fit$dispersion / (1 + fit$dispersion),
  within = function(each, y, fit, rows) {
    log_mean_of(log_means_of_shares(each$where, each$scale2, y, fit$trials[rows] - y, alpha_of_nodes(fit)), each)
  }
))
families[["student-t"]] <- list(
  links = "identity",
  object = function(fit) student_object(fit$noise_scale, fit$noise_df),
  noise = FALSE,
  title = function(fit) ", Student-t noise",
  response = function(y, name) one_response(y, name, "\"student-t\""),
  types = c("response", "link"),
  mean = function(eta, fit) eta,
  interval = function(interval) {
    check_mean_interval(interval, "intervals of new responses are quantiles of simulate()", "expected response")
  },
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
  constant = function(y, fit) numeric(length(y))
)

families[["ordinal"]] <- list(
  links = c("logit", "probit"),
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
  draw = function(mean, extent, fit, own) draw_categories(mean, unlist(own), fit),
  ratio_name = "odds_ratio",
  has_ratio = function(fit) fit$link == "logit",
  latent = function(fit, shape) if (fit$link == "probit") 1 else pi^2 / 3,
  constant = function(y, fit) numeric(length(y)),
  cuts = TRUE
)

family_of <- function(object) families[[.subset2(object, "distribution") %||% "gaussian"]]

# The `name` and the `link` of a family, which is as in glm(); one of `known`. A family that is named may have its link beside it.
chosen_family <- function(family, known = names(families), link = NULL) {
  if (is.function(family)) family <- family()
  if (is.character(family) && length(family) == 1L && family %in% known) {
    return(list(name = family, link = chosen_link(family, link)))
  }
  if (!is.null(link)) {
    stop("give the link once: by the family, as in binomial(\"probit\"), or by 'link' with the name of the family", call. = FALSE)
  }
  if (inherits(family, "family") && "negative-binomial" %in% known && is_negative_binomial(family)) {
    return(list(name = "negative-binomial", link = "log", dispersion = given_dispersion(family)))
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

# Arguments of bayes_ridge() and spike_slab() that only some families take.
taken_by <- list(
  sigma2 = "gaussian", dof = "gaussian", accelerate = "gaussian", noise_var = "gaussian", damping = "gaussian",
  hyper = "gaussian", start = "gaussian", solver = setdiff(names(families), "gaussian"),
  flat_in = setdiff(names(families), c("gaussian", "student-t")), exposure = c("poisson", "negative-binomial"), df = "student-t",
  dispersion = c("negative-binomial", "beta-binomial"), link = c("binomial", "ordinal")
)

# How a family is written.
told_family <- function(name) if (has_constructor(name)) paste0(name, "()") else paste0("\"", name, "\"")

# Whether R has a function that makes the family.
has_constructor <- function(name) name %in% c("gaussian", "binomial", "poisson")

# Arguments in `call` that are of other families.
refuse_other_families <- function(call, name) {
  for (given in intersect(names(taken_by), names(call))) {
    if (!name %in% taken_by[[given]]) {
      stop("'", given, "' is for family = ", either(vapply(taken_by[[given]], told_family, "")), ": leave it out", call. = FALSE)
    }
  }
}

# The methods of bayes_ridge(); Python says why other families have no "exact" and no "gcv".
methods_of_family <- list(
  gaussian = c("exact", "em", "loocv", "gcv", "fixed", "reml"),
  binomial = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
  poisson = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv", "reml"),
  `negative-binomial` = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv"),
  `beta-binomial` = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv"),
  `student-t` = c("ep", "laplace", "exact", "gcv", "em", "loocv", "fixed"),
  ordinal = c("ep", "laplace", "em", "loocv", "fixed", "exact", "gcv")
)

# Families that several penalties are for.
several_penalties <- c("gaussian", "binomial", "poisson")

# Fitted values and residuals, n x q.
fit_responses <- function(object) as.matrix(object$fitted.values) + as.matrix(object$residuals)
