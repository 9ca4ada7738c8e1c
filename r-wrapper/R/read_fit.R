#' Exchange fits with Python
#'
#' `read_fit()` reads a fit that was saved in Python by `results.save("file")`. The result is a fit like those of
#' [bayes_ridge()] and [spike_slab()]. `save_fit()` writes a file that Python reads with `pybayesridge.load("file")`. Both
#' functions call Python.
#'
#' @details The methods of a fit that was read do not require Python, with two exceptions. `report()` reads the file
#'   again. `predict()` and other methods for new data code the variables of a Python formula in Python, unless the formula
#'   is a sum of numeric variables and of effects of groups, such as `x + (x | g)`; alternatively, `newdata` contains the columns of
#'   the model matrix, with the variables of groups in place of their effects. R's `formula()` and
#'   `terms()` are not available: the element `formula_in_python` is the formula, and functions for fits by formula, such as
#'   those of 'emmeans', raise an error. An intercept is called `(Intercept)`.
#'
#'   A file saved with `remove_data=True` contains no rows: methods that use them raise an error, all others work. A file
#'   saved with `row_space=False` as well contains too little for R. Files that contain something else, are damaged or were
#'   written by a later version are refused; so are pickles, which can run code when they are read. A formula in a file that
#'   does more than compute with its variables, the transforms of formulas in Python and the functions of NumPy could run
#'   any code when the fit predicts; it is refused unless `allow_code = TRUE`.
#'
#'   A fit of R does not contain the objects of Python. `save_fit()` therefore fits the model again in Python, to the data
#'   kept by the fit (see `model` in [bayes_ridge()]) or named in its call, and writes the file if the coefficients agree. In
#'   Python the columns of the model are those of the model matrix without the intercept, which Python adds, and the formula is
#'   not known. To keep a fit for R use [saveRDS()].
#'
#' @param file Name of the file. `save_fit()` overwrites an existing file.
#' @param object A fit of [bayes_ridge()] or [spike_slab()].
#' @param model Whether to keep the columns of the data with the fit; see [bayes_ridge()].
#' @param allow_code Whether to read a fit whose formula can run other Python code, such as methods or the user's functions.
#'   Such code can do anything you can: use `TRUE` only for files from a source that you trust.
#' @param ... Not used: further arguments raise an error.
#' @return `read_fit()`: a fit, see [bayes_ridge()] and [spike_slab()]. `save_fit()`: `file`, invisibly.
#' @seealso [saveRDS()], [bayes_ridge()], [spike_slab()]
#' @examplesIf pybayesridge::pybayesridge_available()
#' file <- tempfile(fileext = ".fit")
#' save_fit(bayes_ridge(mpg ~ wt + hp, data = mtcars), file)
#' fit <- read_fit(file)
#' predict(fit, mtcars[1:3, ], interval = "prediction")
#' @export
read_fit <- function(file, model = NULL, allow_code = FALSE, ...) {
  refuse_dots("read_fit", ...)
  call <- match.call()
  path <- existing_file(file)
  keeps_data(model, 0)
  if (!isTRUE(allow_code) && !isFALSE(allow_code)) {
    stop("'allow_code' must be TRUE or FALSE, not ", kind_of(allow_code), call. = FALSE)
  }
  value <- call_python("read_fit", path, allow_code)
  input <- input_of_file(value)
  settings <- list(
    family = kind_of_export(value$family)$model,
    model = list(flat_in = value$flat_in),
    group = value[["group"]]
  )
  own <- list(
    file = path, formula_in_python = value$formula, reads = as.character(unlist(value$reads)), coding = value$coding,
    known_sigma2 = value$known_sigma2, group_bands = group_bands_of_file(value$group_bands), allow_code = if (allow_code) TRUE
  )
  fit <- new_fit(value, input, call, settings, model, own)
  # An added intercept is not among the columns, whatever it is called.
  fit$columns <- as.character(unlist(value$columns))
  fit
}

#' @rdname read_fit
#' @export
save_fit <- function(object, file, ...) {
  refuse_dots("save_fit", ...)
  if (!inherits(object, "pybayesridge_fit")) {
    stop("'object' must be a fit of bayes_ridge() or spike_slab(), not ", kind_of(object), call. = FALSE)
  }
  path <- path.expand(check_file(file))
  if (!is.null(object$file)) {
    stop("this fit was read from a file for Python, of which you can make a copy: ", object$file, call. = FALSE)
  }
  if (!dir.exists(dirname(path))) {
    stop("there is no folder '", dirname(path), "': make it first", call. = FALSE)
  }
  given <- without_ones_of_formula(object$settings, refitted_input(object, parent.frame()))
  call_fit(
    given$settings, given$input,
    what = "save_fit", family = object$settings$family, path = path,
    params = as.matrix(object$coefficients), bse = as.matrix(object$bse)
  )
  invisible(file)
}

# Python adds the intercept itself, so that new data there need no column of ones.
without_ones_of_formula <- function(settings, input) {
  ones <- !is.null(input$terms) & colnames(input$x) %in% "(Intercept)"
  if (any(ones)) {
    input$x <- input$x[, !ones, drop = FALSE]
    settings$group <- settings$group[!ones]
    settings$model$unpenalized <- setdiff(settings$model$unpenalized, "(Intercept)")
    p <- settings$model$prior_inclusion
    if (!is.null(names(p))) settings$model$prior_inclusion <- p[names(p) != "(Intercept)"]
    for (name in c("unpenalized", "prior_inclusion")) {
      if (!length(settings$model[[name]])) settings$model[name] <- list(NULL)
    }
    if (!length(settings$group)) settings["group"] <- list(NULL)
  }
  list(settings = settings, input = input)
}

# Refuses what needs values at the rows of a fit that was saved without them.
check_rows <- function(object) {
  if (!has_values_of_rows(object)) {
    stop("this fit contains no values of rows: it was saved without its data", call. = FALSE)
  }
}

# The data of a fit, to fit it again in Python.
refitted_input <- function(object, env) {
  input <- list(
    x = own_rows(object, env)$x,
    y = family_of(object)$responses(object),
    weights = object$weights,
    terms = object$terms
  )
  colnames(input$y) <- object$targets
  input
}

check_file <- function(file) {
  if (missing(file) || !is.character(file) || length(file) != 1L || is.na(file) || !nzchar(file)) {
    stop("'file' must be the name of a file", call. = FALSE)
  }
  file
}

existing_file <- function(file) {
  path <- path.expand(check_file(file))
  if (!file.exists(path) || dir.exists(path)) {
    stop("there is no file '", path, "'", call. = FALSE)
  }
  normalizePath(path)
}

# What formula_input() and matrix_input() make of data, of a file.
input_of_file <- function(value) {
  x <- value$x
  if (is.list(x)) {
    x <- if (requireNamespace("Matrix", quietly = TRUE)) {
      Matrix::sparseMatrix(i = plain(x$i), p = plain(x$p), x = plain(x$x), dims = c(x$nrow, x$ncol), index1 = FALSE)
    }
  }
  rows <- if (!is.null(value$row_names)) as.character(unlist(value$row_names))
  if (!is.null(x)) dimnames(x) <- list(rows, if (isTRUE(value$named)) as.character(unlist(value$columns)))
  levels <- as.list(unlist(value$levels))
  list(
    x = x,
    row_names = rows,
    weights = if (!is.null(value$weights)) plain(value$weights),
    levels = if (length(levels)) levels,
    named = isTRUE(value$named)
  )
}

# Rows of the model matrix of a fit that was read, coded by Python's formula.
rows_of_python <- function(object, newdata) {
  if (is.matrix(newdata)) {
    newdata <- as.data.frame(newdata)
  }
  if (!is.list(newdata)) {
    stop("'newdata' must be a data frame with the variables of the formula", call. = FALSE)
  }
  newdata <- as.data.frame(newdata, stringsAsFactors = FALSE)
  read <- newdata[intersect(object$reads, names(newdata))]
  known <- function(column) is.numeric(column) || is.logical(column) || is.character(column) || is.factor(column)
  odd <- !vapply(read, function(column) is.null(dim(column)) && known(column), NA)
  if (any(odd)) {
    stop("the variable '", names(read)[odd][1L], "' must have numbers, truth values or text", call. = FALSE)
  }
  if (!nrow(read)) {
    return(list(x = matrix(0, 0L, length(object$columns), dimnames = list(NULL, object$columns))))
  }
  available <- pybayesridge_available()
  if (!available) {
    grouping <- unique(unlist(lapply(object$group_bands, function(band) band$groups$variables)))
    stop(
      "the variables of the formula are coded by Python, which is not available here (", attr(available, "reason"), "): give ",
      "'newdata' with the columns of the model matrix",
      if (length(grouping)) c(", and with ", paste0("'", grouping, "'", collapse = ", "), " in place of the effects of groups"),
      call. = FALSE
    )
  }
  found <- call_python("code_rows", object$coding, lapply(read, column_for_python), isTRUE(object$allow_code))
  x <- found$x
  dimnames(x) <- list(rownames(newdata), object$columns)
  if (!is.null(found$unseen)) colnames(found$unseen) <- as.character(unlist(found$bands))
  list(x = x, unseen = found[["unseen"]])
}

# Rows of the model matrix of a fit that was read, where all columns but the effects of groups are in the new data, and groups are text
# or whole numbers, which are written alike in both languages; NULL elsewhere. `groups`: whether effects of groups count.
rows_with_groups <- function(object, newdata, groups) {
  bands <- object$group_bands
  if (!length(bands) || !is.list(newdata)) {
    return(NULL)
  }
  newdata <- as.data.frame(newdata, optional = TRUE)
  plain <- setdiff(object$columns, unlist(lapply(bands, `[[`, "columns")))
  effects <- setdiff(vapply(bands, `[[`, "", "term"), "1")
  levels <- unlist(lapply(bands, function(band) stats::setNames(band$groups$levels, band$groups$variables)), recursive = FALSE)
  grouping <- unique(names(levels))
  if (!groups) newdata[setdiff(grouping, names(newdata))] <- NA_character_
  numbers <- function(column) (is.numeric(column) || is.logical(column)) && !is.object(column) && is.null(dim(column))
  present <- intersect(grouping, names(newdata))
  told <- Map(told_group, newdata[present], levels[present])
  if (!all(c(plain, effects) %in% names(newdata)) || !all(vapply(newdata[c(plain, effects)], numbers, NA)) ||
    length(told) < length(grouping) || any(vapply(told, is.null, NA))) {
    return(NULL)
  }
  x <- matrix(0, nrow(newdata), length(object$columns), dimnames = list(rownames(newdata), object$columns))
  x[, plain] <- as.matrix(newdata[plain])
  unseen <- vapply(bands, function(band) {
    effect <- if (band$term == "1") rep(1, nrow(newdata)) else as.double(newdata[[band$term]])
    codes <- codes_of_groups(band$groups, told)
    known <- which(codes > 0L)
    x[cbind(known, match(band$columns, object$columns)[codes[known]])] <<- effect[known]
    x[is.na(effect), ] <<- NA
    ifelse(codes > 0L | is.na(effect), 0, effect)
  }, numeric(nrow(newdata)))
  unseen <- matrix(unseen, nrow(newdata), dimnames = list(NULL, vapply(bands, `[[`, "", "name")))
  list(x = x, unseen = unseen)
}

# Groups as text, like the `levels` of the fit; NULL for values that R may write in another way than Python did.
told_group <- function(column, levels) {
  if (is.factor(column) || is.character(column) || all(is.na(column))) {
    return(as.character(column))
  }
  known <- column[!is.na(column)]
  whole <- is.numeric(column) && !is.object(column) && all(known == round(known) & abs(known) < 1e15)
  if (whole && all(grepl("^-?[0-9]+$", levels))) {
    replace(as.character(column), !is.na(column), told_levels(known))
  }
}

# Whether new data contain the columns of the model matrix.
has_columns <- function(object, newdata) {
  if (!is.list(newdata)) {
    return(is.null(colnames(newdata)) || all(object$columns %in% colnames(newdata)))
  }
  numbers <- function(column) (is.numeric(column) || is.logical(column)) && is.null(dim(column))
  all(object$columns %in% names(newdata)) && all(vapply(newdata[object$columns], numbers, NA))
}

# Numbers as they are; truth values and text as lists, in which NULL stands for what is missing.
column_for_python <- function(column) {
  if (is.numeric(column) && !is.object(column)) {
    return(as.double(column))
  }
  values <- as.list(if (is.logical(column)) as.vector(column) else as.character(column))
  values[is.na(column)] <- list(NULL)
  unname(values)
}
