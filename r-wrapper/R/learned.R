# What transforms in formulas learn from data, such as the knots of a spline or the mean in scale(): `predvars` of their terms.

# Of the formulas that are evaluated while fit_imputed() fits one data set, in this order: `uses` (their terms and the rows that
# they read), and `given`, the predvars that they are to have.
learning <- new.env(parent = emptyenv())
learning$active <- FALSE
learning$uses <- learning$given <- list()

# The value of an expression that fits models, and what their formulas have learned; they use what is `given`.
with_learning <- function(given, fits) {
  before <- as.list(learning)
  on.exit(list2env(before, learning))
  list2env(list(active = TRUE, uses = list(), given = given), learning)
  value <- force(fits)
  list(value = value, uses = learning$uses)
}

# A model frame made by `frame_call`, with the predvars that are given for it.
learned_frame <- function(frame, frame_call, data, env) {
  if (!learning$active) {
    return(frame)
  }
  k <- length(learning$uses) + 1L
  if (k <= length(learning$given)) {
    terms <- attr(frame, "terms")
    attr(terms, "predvars") <- learning$given[[k]]
    frame_call$formula <- terms
    frame <- eval(frame_call, env)
  }
  terms <- attr(frame, "terms")
  rows <- if (is.list(data)) as.data.frame(data)[rownames(frame), intersect(all.vars(terms), names(data)), drop = FALSE]
  learning$uses[[k]] <- list(terms = terms, rows = rows)
  frame
}

# For each formula the predvars that it is to have in all data sets: those that differ between these are made of all their rows.
# NULL if none differ. `sets` are the uses of each data set.
learned_together <- function(sets) {
  if (length(unique(lengths(sets))) != 1L) {
    return(NULL)
  }
  each <- lapply(seq_along(sets[[1L]]), function(k) {
    uses <- lapply(sets, `[[`, k)
    differ <- differing_predvars(lapply(uses, `[[`, "terms"))
    list(predvars = joint_predvars(uses, differ), differ = any(differ))
  })
  if (any(vapply(each, `[[`, NA, "differ"))) lapply(each, `[[`, "predvars")
}

# Which entries of the predvars of several terms, of the same formula, differ.
differing_predvars <- function(terms) {
  each <- lapply(terms, function(one) as.list(attr(one, "predvars")))
  if (length(unique(lengths(each))) != 1L) {
    return(FALSE)
  }
  vapply(seq_along(each[[1L]]), function(i) {
    !all(vapply(each, function(one) identical(one[[i]], each[[1L]][[i]]), NA))
  }, NA)
}

joint_predvars <- function(uses, differ) {
  terms <- uses[[1L]]$terms
  out <- attr(terms, "predvars")
  if (!any(differ)) {
    return(out)
  }
  attr(terms, "predvars") <- NULL
  together <- tryCatch(
    stats::model.frame(terms, do.call(rbind, lapply(uses, `[[`, "rows"))),
    error = function(e) {
      stop(
        variables_of(terms, differ), " cannot be evaluated on the rows of all data sets together: ", conditionMessage(e),
        ". Make every variable of the formula a column of the data sets",
        call. = FALSE
      )
    }
  )
  out[differ] <- attr(attr(together, "terms"), "predvars")[differ]
  out
}

# Some variables of terms, as they are written; `which` counts the entries of a call to list().
variables_of <- function(terms, which) {
  paste0("'", vapply(as.list(attr(terms, "variables"))[which], deparse1, ""), "'", collapse = ", ")
}
