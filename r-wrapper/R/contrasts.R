# Contrasts as Python takes them: texts with the names of coefficients in backticks, or a matrix of weights, and `labels`. With
# `env` names of terms stand for all their coefficients; those of a fit that was read Python writes out.
contrasts_for_python <- function(object, contrasts, env = NULL) {
  names <- coefficient_names(object)
  if (missing(contrasts) || is.null(contrasts) || !length(contrasts)) {
    stop("'contrasts' is missing: write a contrast such as \"", paste(utils::head(names, 2L), collapse = " - "), "\"", call. = FALSE)
  }
  if (is.character(contrasts)) {
    labels <- names(contrasts)
    parts <- if (is.null(labels)) trimws(unlist(lapply(contrasts, between_commas))) else unname(contrasts)
    labels <- labels %||% parts
    if (!is.null(env) && !is.null(object$terms)) {
      parts <- terms_written_out(object, parts, env)
      labels <- parts
    }
    return(list(contrasts = lapply(parts, quoted_names, names = names), labels = as.list(labels)))
  }
  weights <- weights_of(contrasts, names)
  labels <- rownames(weights) %||% paste("row", seq_len(nrow(weights)))
  list(contrasts = unname(weights), labels = as.list(labels))
}

weights_of <- function(contrasts, names) {
  if (is.data.frame(contrasts)) contrasts <- as.matrix(contrasts)
  if (is.numeric(contrasts) && is.null(dim(contrasts))) {
    contrasts <- matrix(contrasts, 1L, dimnames = if (!is.null(names(contrasts))) list(NULL, names(contrasts)))
  }
  if (!is.numeric(contrasts) || length(dim(contrasts)) != 2L) {
    stop("'contrasts' must be text, or a vector, matrix or data frame of weights", call. = FALSE)
  }
  if (is.null(colnames(contrasts))) {
    if (ncol(contrasts) != length(names)) {
      stop(sprintf("'contrasts' has %d columns, and there are %d coefficients", ncol(contrasts), length(names)), call. = FALSE)
    }
    return(contrasts)
  }
  at <- match_names(colnames(contrasts), names)
  if (anyNA(at)) {
    odd <- colnames(contrasts)[is.na(at)][1L]
    stop("'contrasts' names '", odd, "', which is not a coefficient", did_you_mean(odd, names), call. = FALSE)
  }
  out <- matrix(0, nrow(contrasts), length(names), dimnames = list(rownames(contrasts), NULL))
  out[, at] <- contrasts
  out
}

# The names of coefficients in a text in backticks, the longest first, where these are no names of R.
quoted_names <- function(text, names) {
  odd <- names[make.names(names) != names & nzchar(names)]
  pieces <- strsplit(text, "`", fixed = TRUE)[[1L]]
  outside <- seq_along(pieces) %% 2L == 1L
  pieces[outside] <- vapply(pieces[outside], quoted_piece, "", names = odd[order(-nchar(odd))], USE.NAMES = FALSE)
  pieces[!outside] <- paste0("`", pieces[!outside], "`")
  paste(pieces, collapse = "")
}

quoted_piece <- function(piece, names) {
  for (name in names) {
    at <- regexpr(name, piece, fixed = TRUE)
    if (at < 0L) next
    before <- substr(piece, 1L, at - 1L)
    after <- substr(piece, at + nchar(name), nchar(piece))
    part <- grepl("[A-Za-z0-9._]$", before) && grepl("^[A-Za-z0-9._]", name) || grepl("^[A-Za-z0-9._(\\[]", after)
    if (part) next
    return(paste0(quoted_piece(before, names), "`", name, "`", quoted_piece(after, names)))
  }
  piece
}

# Texts in which the names of terms are the names of their coefficients; spaces and the order of the factors of an interaction are
# as the user writes them.
terms_written_out <- function(object, contrasts, env) {
  names <- coefficient_names(object)
  rest <- which(!contrasts %in% names)
  if (!length(rest)) {
    return(contrasts)
  }
  terms <- coefficients_of_terms(object, env)
  written <- vapply(contrasts[rest], function(part) tryCatch(deparse1(str2lang(part)), error = function(e) part), "")
  out <- as.list(contrasts)
  at <- match_names(written, as.character(names(terms)))
  out[rest[!is.na(at)]] <- lapply(terms[at[!is.na(at)]], function(own) paste0("`", own, "`"))
  unlist(out)
}

# Names of the coefficients of each term, by its label; a term with a variance of its own is called as it makes a band alone.
coefficients_of_terms <- function(object, env) {
  labels <- attr(object$band_terms$fixed %||% object$terms, "term.labels")
  assign <- attr(own_rows(object, env)$x, "assign")
  plain <- lapply(seq_along(labels), function(term) coefficient_names(object)[which(assign == term)])
  bands <- object$band_terms$bands
  c(
    stats::setNames(plain, labels),
    stats::setNames(lapply(bands, function(band) c(band$lines, band$columns)), vapply(bands, told_band, ""))
  )
}

# Parts of a text between commas outside of brackets and backticks.
between_commas <- function(text) {
  letters <- strsplit(text, "", fixed = TRUE)[[1L]]
  depth <- cumsum(letters %in% c("(", "[")) - cumsum(letters %in% c(")", "]"))
  quoted <- cumsum(letters == "`") %% 2L == 1L
  part <- cumsum(letters == "," & depth == 0L & !quoted)
  vapply(split(letters, part), function(each) {
    sub("^,", "", paste(each, collapse = ""))
  }, "", USE.NAMES = FALSE)
}
