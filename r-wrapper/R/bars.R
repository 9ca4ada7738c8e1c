# Terms of a formula that have a variance of their own, taken out of it: effects of groups, (x | g), smooth curves, s(x), and
# columns with a penalty of their own, band(a, b). They are summands: a formula is walked through by its operators.

formula_operators <- c("+", "-", "*", "/", ":", "^", "%in%", "(")
bars <- c("|", "||")
band_functions <- c("s", "band")

# Functions of the basis of a curve where the formula does not say how many, the fewest and the most, as in Python.
default_basis <- 10
fewest_of_basis <- 3
most_of_basis <- 1000

# The operator or function that an expression calls, or "".
called <- function(part) if (is.call(part) && is.symbol(part[[1L]])) as.character(part[[1L]]) else ""

has_band_terms <- function(part) {
  name <- called(part)
  if (name %in% formula_operators) {
    return(any(vapply(as.list(part)[-1L], has_band_terms, NA)))
  }
  name %in% c(bars, band_functions)
}

# The right-hand side of a formula without such terms (`fixed`, NULL if nothing is left), and a list of them (`terms`).
taken_out <- function(part) {
  name <- called(part)
  if (!has_band_terms(part)) {
    return(list(fixed = part, terms = list()))
  }
  if (name %in% band_functions) {
    return(list(terms = list(if (name == "s") smooth_term(part) else columns_term(part))))
  }
  if (name == "(") {
    inside <- part[[2L]]
    if (called(inside) %in% bars) {
      return(list(terms = group_terms(inside, deparse1(part))))
    }
    found <- taken_out(inside)
    if (!is.null(found$fixed)) found$fixed <- call("(", found$fixed)
    return(found)
  }
  if (name == "+") {
    each <- lapply(as.list(part)[-1L], taken_out)
    fixed <- Filter(Negate(is.null), lapply(each, `[[`, "fixed"))
    return(list(
      fixed = if (length(fixed)) Reduce(function(a, b) call("+", a, b), fixed),
      terms = unlist(lapply(each, `[[`, "terms"), recursive = FALSE)
    ))
  }
  if (name == "-") {
    last <- part[[length(part)]]
    if (has_band_terms(last)) {
      stop(deparse1(last), " cannot be subtracted: leave it out of the formula", call. = FALSE)
    }
    found <- taken_out(part[[2L]])
    found$fixed <- if (is.null(found$fixed)) call("-", last) else call("-", found$fixed, last)
    return(found)
  }
  stop(not_alone(part), call. = FALSE)
}

# What to write for a term that is part of a product or of another expression.
not_alone <- function(part) {
  inside <- vapply(written_terms(part), called, "")
  paste0(deparse1(part), ": ", if ("s" %in% inside) {
    "a smooth curve stands alone in a sum; one that differs between groups is s(x, by = g), one whose height is proportional to z is s(x, by = z)"
  } else if ("band" %in% inside) {
    "band() stands alone in a sum; products of columns go into it, band(a:b, b:c)"
  } else {
    paste0(
      "a term with a bar stands alone in a sum, in parentheses of its own; a slope that varies by group is (0 + x | g), groups of ",
      "combinations are (1 | a:b), and a logical 'or' is I(a | b)"
    )
  })
}

# The terms that `effects | groups` is: several where factors are nested.
group_terms <- function(bar, written) {
  effects <- bar[[2L]]
  inside <- vapply(written_terms(effects), called, "")
  if (any(inside %in% bars) || called(bar[[3L]]) %in% bars) {
    stop(written, " cannot be read: a term has one bar, (x | g), or two together, (x || g)", call. = FALSE)
  }
  if (any(inside %in% band_functions)) {
    stop(
      written, ": before a bar stand columns whose effects vary by group, not smooth curves; a curve for each group is s(x, by = g)",
      call. = FALSE
    )
  }
  if ("." %in% all.vars(effects)) {
    stop(written, ": before a bar the columns are named, without .", call. = FALSE)
  }
  correlated <- called(bar) == "|"
  lapply(nested_groups(bar[[3L]], effects, written, called(bar)), function(groups) {
    list(kind = "group", written = written, effects = effects, groups = groups, correlated = correlated)
  })
}

# The grouping factors of a:b (one) and of a/b (a and a:b).
nested_groups <- function(groups, effects, written, bar) {
  while (called(groups) == "(") groups <- groups[[2L]]
  sign <- called(groups)
  if (sign %in% c("+", "*")) {
    told <- vapply(written_terms(groups), deparse1, "")
    if (sign == "*") told <- c(told, paste(told, collapse = ":"))
    stop(
      written, ": each grouping factor has a term of its own: write ",
      paste0("(", deparse1(effects), " ", bar, " ", told, ")", collapse = " + "),
      call. = FALSE
    )
  }
  if (!sign %in% c(":", "/")) {
    return(list(group_name(groups, written)))
  }
  before <- nested_groups(groups[[2L]], effects, written, bar)
  after <- nested_groups(groups[[3L]], effects, written, bar)
  if (length(after) > 1L) {
    stop(written, " cannot be read: write a/b/c for factors of which each is nested in the one before", call. = FALSE)
  }
  whole <- c(before[[length(before)]], after[[1L]])
  if (anyDuplicated(whole)) {
    stop(written, " names a grouping factor twice", call. = FALSE)
  }
  c(if (sign == "/") before else before[-length(before)], list(whole))
}

# The column that a grouping factor is, as it is or in factor().
group_name <- function(group, written) {
  name <- column_in_factor(group)
  if (is.null(name)) {
    stop(
      written, ": ", deparse1(group), " cannot be a grouping factor, which is a column of the data: make a column of it",
      call. = FALSE
    )
  }
  name
}

# The name in `g` and in factor(g); NULL for anything else.
column_in_factor <- function(expression) {
  if (called(expression) %in% c("factor", "as.factor", "C") && length(expression) == 2L) expression <- expression[[2L]]
  if (is.symbol(expression)) as.character(expression)
}

# The term that a call of s() is.
smooth_term <- function(part) {
  written <- deparse1(part)
  given <- as.list(part)[-1L]
  names <- names(given) %||% rep("", length(given))
  if (sum(names == "") != 1L) {
    stop(
      written, ": s() is a smooth curve of one variable, s(x) or s(x, k = 10); a surface is a product of splines, ",
      "splines::bs(x, df = 4):splines::bs(z, df = 4)",
      call. = FALSE
    )
  }
  bs <- given[["bs"]]
  if (!is.null(bs) && !identical(bs, "cr")) {
    stop(
      written, ": smooth curves are cubic regression splines, so leave out bs =",
      if (identical(bs, "re")) "; effects of groups are (1 | g)",
      call. = FALSE
    )
  }
  unknown <- setdiff(names, c("", "k", "by", "bs"))
  if (length(unknown)) {
    stop(written, ": s() has the arguments k and by, not ", paste0("'", unknown, "'", collapse = ", "), call. = FALSE)
  }
  basis <- given[["k"]] %||% default_basis
  if (!is.numeric(basis) || is.na(basis) || basis != round(basis) || basis < fewest_of_basis || basis > most_of_basis) {
    stop(
      written, ": k is the number of functions in the basis, a whole number from ", fewest_of_basis, " to ", most_of_basis,
      call. = FALSE
    )
  }
  by <- given[["by"]]
  name <- if (is.null(by)) "" else column_in_factor(by)
  if (is.null(name)) {
    stop(written, ": by = takes a column of the data, or factor(column) for numbers that are levels", call. = FALSE)
  }
  list(
    kind = "smooth", written = written, argument = given[[which(names == "")]], basis = as.integer(basis), by = name,
    as_factor = is.call(by)
  )
}

# The term that a call of band() is.
columns_term <- function(part) {
  written <- deparse1(part)
  given <- as.list(part)[-1L]
  names <- names(given) %||% rep("", length(given))
  name <- given[["name"]]
  if (length(setdiff(names, c("", "name"))) || !is.null(name) && !(is.character(name) && nzchar(trimws(name)))) {
    stop(written, ": band() takes columns and the argument name = \"...\"", call. = FALSE)
  }
  terms <- unname(given[names == ""])
  for (term in terms) {
    if (called(term) %in% setdiff(formula_operators, ":")) {
      stop(
        written, ": band() takes columns, functions of them and products, band(a, log(b), a:c); the sum of two columns is I(a + b)",
        call. = FALSE
      )
    }
    if (has_band_terms(term)) {
      stop(written, ": s() and band() cannot stand in another band: write a sum of them", call. = FALSE)
    }
    if ("." %in% all.vars(term) || !length(all.vars(term))) {
      stop(written, ": band() takes the names of columns, without . and numbers", call. = FALSE)
    }
  }
  if (!length(terms)) {
    stop(written, " has no columns: write band(a, b) or band(a, b, name = \"c\")", call. = FALSE)
  }
  told <- paste0("band(", paste(vapply(terms, deparse1, ""), collapse = ", "), ")")
  list(kind = "columns", written = written, terms = terms, name = name %||% told)
}

# A formula in two parts: `fixed`, a formula without the terms that make bands, and these (`terms`); NULL if it has none.
# `data` says what a dot stands for: neither groups nor what is part of a curve or of another band.
split_formula <- function(formula, data) {
  env <- environment(formula)
  right <- formula[[length(formula)]]
  if (!has_band_terms(right)) {
    return(NULL)
  }
  found <- taken_out(right)
  for (name in band_functions) {
    used <- Filter(function(term) term$kind == c(s = "smooth", band = "columns")[[name]], found$terms)
    if (length(used) && is_users_function(name, env)) {
      stop(
        used[[1L]]$written, " is ", if (name == "s") "a smooth curve" else "a set of columns with a penalty of their own",
        " in a formula, and there is a function ", name, " of yours: rename yours, or call it in braces, {", used[[1L]]$written, "}",
        call. = FALSE
      )
    }
  }
  fixed <- formula
  fixed[[length(fixed)]] <- found$fixed %||% 1
  if ("." %in% all.vars(fixed[[length(fixed)]]) && is.data.frame(data)) {
    inside <- unlist(lapply(found$terms, left_out_of_dot, data = data))
    named <- setdiff(names(data), c(inside, if (length(fixed) == 3L) all.vars(fixed[[2L]])))
    fixed[[length(fixed)]] <- without_dot(fixed[[length(fixed)]], named)
  }
  list(formula = formula, fixed = fixed, terms = found$terms)
}

# A sum of terms with the sum of variables in place of a dot. terms() warns of what is subtracted and not among its data.
without_dot <- function(part, variables) {
  if (identical(part, quote(.))) {
    if (!length(variables)) {
      stop("the dot of the formula stands for no variable of the data: leave it out", call. = FALSE)
    }
    return(call("(", as_sum(lapply(variables, as.symbol))[[2L]]))
  }
  if (called(part) %in% formula_operators) part[-1L] <- lapply(as.list(part)[-1L], without_dot, variables = variables)
  part
}

# Variables of a term that a dot does not stand for.
left_out_of_dot <- function(term, data) {
  switch(term$kind,
    group = term$groups,
    smooth = c(all.vars(term$argument), if (nzchar(term$by) && !term$as_factor && is.numeric(data[[term$by]])) term$by),
    columns = unlist(lapply(term$terms, all.vars))
  )
}

# Whether there is a function of this name that is the user's and not a package's.
is_users_function <- function(name, env) {
  found <- get0(name, env %||% globalenv(), mode = "function")
  # Generic functions of packages, such as band() of 'Matrix', are not in the namespace themselves.
  !is.null(found) && !methods::is(found, "genericFunction") && !nzchar(package_of(name, found))
}

# Variables of the model frame that a term reads, as they are written there.
variables_of_term <- function(term) {
  switch(term$kind,
    group = c(as.list(attr(effects_of(term), "variables"))[-1L], lapply(term$groups, as.symbol)),
    smooth = c(list(as_variable(term$argument)), if (nzchar(term$by)) list(as.symbol(term$by))),
    columns = as.list(attr(columns_of(term), "variables"))[-1L]
  )
}

effects_of <- function(term) stats::terms(as_sum(list(term$effects)))

columns_of <- function(term) stats::terms(as_sum(term$terms))

as_sum <- function(parts) {
  out <- call("~", Reduce(function(a, b) call("+", a, b), parts))
  stats::as.formula(out, env = baseenv())
}

# An expression as a variable of a formula, whose operators mean something else.
as_variable <- function(expression) {
  if (called(expression) %in% formula_operators) call("I", expression) else expression
}

# The formula of the model frame: all variables, in a sum.
frame_formula <- function(split) {
  out <- split$fixed
  of_terms <- unique(unlist(lapply(split$terms, variables_of_term), recursive = FALSE))
  out[[length(out)]] <- Reduce(function(a, b) call("+", a, b), of_terms, out[[length(out)]])
  out
}
