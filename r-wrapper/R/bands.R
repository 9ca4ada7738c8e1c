# The argument `bands` and what bands of a formula ask of Python: which columns share a penalty.

# Bands as Python takes them: `bands`, lists of names or positions by name, `own_scale`, names of columns that are not standardised,
# and `sets`, names of the bands of each term whose effects are correlated; NULL without bands. `unpenalized` is as resolve_unpenalized() gives it.
bands_for_python <- function(bands, input, unpenalized) {
  of_formula <- input$band_terms$bands
  named <- if (!is.null(bands)) named_bands(bands, input, unpenalized)
  names <- vapply(of_formula, `[[`, "", "name")
  twice <- intersect(names, names(named))
  if (length(twice)) {
    stop("'bands' names '", twice[1L], "', which the formula makes itself: choose another name", call. = FALSE)
  }
  members <- lapply(of_formula, function(band) as.list(band$columns))
  own <- unlist(lapply(of_formula, function(band) if (!band$standardized) band$columns))
  list(bands = c(named, stats::setNames(members, names)), own_scale = as.list(own), sets = correlated_sets(of_formula))
}

# Names of the bands of each term whose effects are correlated.
correlated_sets <- function(bands) {
  bands <- Filter(function(band) !is.null(band[["correlated"]]), as.list(bands))
  terms <- vapply(bands, function(band) paste(band$correlated, group_label(band$groups)), "")
  lapply(unname(split(bands, factor(terms, levels = unique(terms)))), function(own) lapply(unname(own), `[[`, "name"))
}

# Bands that the user names, or labels of the columns, as a list of lists.
named_bands <- function(bands, input, unpenalized) {
  if (is.list(bands) && !is.data.frame(bands)) {
    if (is.null(names(bands)) || !all(nzchar(names(bands)))) {
      stop("'bands' must have a name for each band: bands = list(genes = c(\"g1\", \"g2\"), clinic = \"age\")", call. = FALSE)
    }
    return(lapply(stats::setNames(nm = names(bands)), function(name) columns_of_band(bands[[name]], input, name)))
  }
  labels_of_bands(bands, input, unpenalized)
}

# The columns of a band: names of terms or columns, or positions in x.
columns_of_band <- function(members, input, name) {
  what <- paste0("band '", name, "'")
  if (is.null(input$terms)) {
    if (is.numeric(members)) {
      return(columns_by_position(members, input, what))
    }
    return(as.list(as.character(unlist(members))))
  }
  if (!is.character(members)) {
    stop(what, " must be names of terms or of columns of the model matrix", call. = FALSE)
  }
  columns_of_names(members, input, what)
}

# Labels, one for each column but R's column of ones, as bands by name; those of unpenalised columns do not matter.
labels_of_bands <- function(labels, input, unpenalized) {
  columns <- colnames(input$x)
  place <- seq_len(ncol(input$x))
  if (!is.null(input$terms)) place <- place[input$assign > 0L]
  if (!is.atomic(labels) && !is.factor(labels)) {
    stop("'bands' must be a named list of columns, or a label for each column", call. = FALSE)
  }
  if (!is.null(names(labels)) && !is.null(columns)) {
    if (!setequal(names(labels), columns[place]) || anyDuplicated(names(labels))) {
      stop("the names of 'bands' must be those of the columns, each once", call. = FALSE)
    }
    labels <- labels[columns[place]]
  }
  if (length(labels) != length(place)) {
    stop(sprintf("'bands' must have one label for each of the %d columns, got %d", length(place), length(labels)), call. = FALSE)
  }
  given <- if (is.null(columns)) as.list(place - 1) else as.list(columns[place])
  free <- given %in% unpenalized
  if (anyNA(labels[!free])) {
    stop("'bands' has no label for column ", as.character(given[!free & is.na(labels)][[1L]]), ": add a label for each", call. = FALSE)
  }
  labels <- as.character(labels)[!free]
  lapply(split(given[!free], factor(labels, levels = unique(labels))), unname)
}

bands_values <- function(value) {
  found <- lapply(plain_tree(value$components), function(a) if (is.list(a)) as.character(unlist(a)) else a)
  list(bands = as.character(unlist(value$bands)), components = found)
}
