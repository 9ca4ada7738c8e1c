# Terms of formulas with a variance of their own, taken out of them; no Python is needed.

rows <- 40L
table <- local({
  set.seed(1)
  data.frame(
    y = rnorm(rows), x = rnorm(rows), z = rnorm(rows), g = rep(c("a", "b", "c", "d"), 10), h = factor(rep(c("p", "q"), 20)),
    i = seq_len(rows), one = "k", num = rep(c(1, 100000), 20)
  )
})

bands <- function(formula, data = table) {
  split <- split_formula(formula, data)
  frame <- model.frame(frame_formula(split), data)
  terms <- attr(frame, "terms")
  fixed <- part_of_terms(terms(split$fixed), terms)
  plain <- model.matrix(fixed, frame)
  own <- band_terms_of(split, fixed, terms, frame, colnames(plain))
  c(own, with_bands(plain, own$bands, frame))
}

names_of <- function(found) vapply(found$bands, `[[`, "", "name")

test_that("a formula is split by its operators", {
  fixed <- function(formula) deparse1(split_formula(formula, table)$fixed)
  expect_null(split_formula(y ~ x + I(x | z), table))
  expect_identical(fixed(y ~ x + (1 | g)), "y ~ x")
  expect_identical(fixed(y ~ (1 | g)), "y ~ 1")
  expect_identical(fixed(y ~ (1 | g) + x - 1), "y ~ x - 1")
  expect_identical(fixed(y ~ (1 | g) - 1), "y ~ -1")
  expect_identical(fixed(y ~ (x + (1 | g)) + s(z)), "y ~ (x)")
  expect_identical(fixed(y ~ x * z + band(h)), "y ~ x * z")
  expect_setequal(attr(terms(split_formula(y ~ . + (1 | g) + s(z), table)$fixed), "term.labels"), c("x", "h", "i", "one", "num"))
})

test_that("bars, nested and crossed, make the bands of lme4", {
  expect_identical(names_of(bands(y ~ (x || g))), c("g", "x|g"))
  expect_identical(names_of(bands(y ~ (1 | h / g))), c("h", "h:g"))
  expect_identical(names_of(bands(y ~ (1 | g:h) + (0 + x | factor(g)))), c("g:h", "x|g"))
  expect_identical(bands(y ~ (1 | num))$bands[[1]]$columns, c("num[1]", "num[100000]"))
  found <- bands(y ~ x + (x || g))
  expect_identical(colnames(found$x), c("(Intercept)", "x", paste0("g[", letters[1:4], "]"), paste0("x|g[", letters[1:4], "]")))
  expect_identical(unname(rowSums(found$x[, 3:6])), rep(1, rows))
  expect_equal(unname(rowSums(found$x[, 7:10])), table$x)
})

test_that("columns are those of lme4", {
  skip_if_not_installed("lme4")
  made <- lme4::lFormula(y ~ x + (x || g) + (1 | h / g), transform(table, g = factor(g)))
  ours <- bands(y ~ x + (x || g) + (1 | h / g))
  theirs <- t(as.matrix(made$reTrms$Zt))
  columns <- unname(ours$x[, -(1:2)])
  # In another order.
  expect_equal(sort(colSums(columns * seq_len(rows))), sort(unname(colSums(theirs * seq_len(rows)))))
})

test_that("smooth curves are those of mgcv", {
  skip_if_not_installed("mgcv")
  made <- bands(y ~ s(x, k = 6))
  theirs <- mgcv::smoothCon(mgcv::s(x, bs = "cr", k = 6), table, absorb.cons = TRUE)[[1]]
  random <- mgcv::smooth2random(theirs, "", type = 2)
  ours <- made$x[, paste0("s(x).", 1:4)]
  # The same functions with the same penalty, but for the unit of the variable: their products are proportional.
  project <- function(m) tcrossprod(qr.resid(qr(cbind(1, table$x)), m))
  a <- project(ours)
  b <- project(random$rand[[1]])
  expect_equal(unname(a / sum(diag(a))), b / sum(diag(b)), tolerance = 1e-6)
  curve <- curve_of(table$x, 6L, TRUE, "s(x)")
  ends <- max(table$x) + 0:2
  expect_equal(diff(curve_at(curve, ends), differences = 2), matrix(0, 1, 4), tolerance = 1e-9)
  expect_equal(colMeans(curve_at(curve, table$x)), numeric(4), tolerance = 1e-12)
})

test_that("new rows are coded as those of the fit", {
  found <- bands(y ~ h + (x || g) + s(z, k = 4) + s(x, by = h, k = 3))
  again <- with_bands(model.matrix(~h, table), found$bands, table[c("x", "z", "g", "h")])
  expect_equal(again$x[, -(1:2)], found$x[, -(1:2)])
  new <- transform(table[1:3, ], g = c("a", "zz", NA))
  at <- band_at(found$bands[[2]], structure(new, terms = terms(~ x + g)))
  expect_identical(at$unseen, c(0, new$x[2:3]))
  expect_identical(unname(rowSums(at$x)), c(new$x[1], 0, 0))
  expect_error(band_at(found$bands[[1]], transform(new, g = 1:3)), "were text in the fit, and are numbers")
})

test_that("what cannot be meant is an error that says what to write", {
  refused <- list(
    list(y ~ x + (1 | g):z, "stands alone in a sum"), list(y ~ x - (1 | g), "cannot be subtracted"), list(y ~ x * (1 | g), "stands alone"),
    list(y ~ 1 | g, "in parentheses of its own"), list(y ~ s(x):z, "s(x, by = z)"), list(y ~ (s(x) | g), "s(x, by = g)"),
    list(y ~ x + s(x), "x is part of s(x)"), list(y ~ s(x) + s(x, by = h), "sum of the curves"), list(y ~ (h || g), "not independent"),
    list(y ~ (1 | g + h), "(1 | g) + (1 | h)"), list(y ~ (1 | g) + g, "g is part of"),
    list(y ~ (1 | g) + (1 | g), "twice"), list(y ~ (1 | one), "one level"),
    list(y ~ (1 | i), "cannot be told from noise: leave the term out; overdispersed counts have family='negative-binomial'"),
    list(y ~ (1 | log(x)), "make a column of it"), list(y ~ (1 | g | h), "has one bar"), list(y ~ (. | g), "without ."),
    list(y ~ (0 | g), "has no effects"), list(y ~ s(x, z), "one variable"), list(y ~ s(x, bs = "tp"), "leave out bs"),
    list(y ~ s(x, k = 2), "a whole number from 3"), list(y ~ s(x, m = 2), "not 'm'"), list(y ~ s(h), "a number, not of text"),
    list(y ~ s(x, by = log(z)), "takes a column"), list(y ~ band(x + z), "I(a + b)"), list(y ~ band(), "has no columns"),
    list(y ~ band(x) + x, "once more in the formula"), list(y ~ band(x, z) + band(z), "in two bands"), list(y ~ (1 | g / g), "twice"),
    list(y ~ z + s(x, by = z), "z is part of s(x):z"), list(y ~ s(num), "2 distinct values"),
    list(y ~ s(I(0 * x)), "the same value in every row")
  )
  for (case in refused) expect_error(bands(case[[1]]), case[[2]], fixed = TRUE, info = deparse1(case[[1]]))
  expect_warning(bands(y ~ s(x, by = h, k = 4)), "all its levels have one height")
  expect_false(is_users_function("abs", globalenv()))
  s <- function(x) x^2
  expect_error(split_formula(y ~ s(x), table), "a function s of yours")
})

test_that("more columns than memory holds are refused before they are made", {
  many <- data.frame(y = 0, x = rnorm(3e5), g = rep(seq_len(1e4), 30))
  expect_error(bands(y ~ x + (1 | g), many), "300000 rows would take 24 GB, most of them those of (1 | g) (10000)", fixed = TRUE)
})

test_that("a dot stands for the variables that are nowhere else, also where a group is subtracted", {
  fixed <- function(formula) {
    expect_silent(found <- split_formula(formula, table[c("x", "z", "g", "h")]))
    attr(terms(found$fixed), "term.labels")
  }
  expect_identical(fixed(x ~ . - h + (1 | g)), "z")
  expect_identical(fixed(x ~ . - g - h + (1 | g)), "z")
  expect_identical(fixed(log(x) ~ .^2 + (1 | g)), c("z", "h", "z:h"))
  expect_identical(fixed(x ~ . + s(z)), c("g", "h"))
  expect_error(split_formula(x ~ . + (1 | g), table[c("x", "g")]), "stands for no variable")
})
