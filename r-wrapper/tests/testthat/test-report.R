test_that("a report is one file that says where it comes from", {
  skip_without_python()
  skip_if_not(has_report(), "no jinja2 and matplotlib")
  file <- tempfile(fileext = ".html")
  on.exit(unlink(file))
  d <- mtcars
  d$hp[3] <- NA
  fits <- list(
    bayes_ridge(mpg ~ hp + factor(cyl), d, weights = qsec, method = "exact"),
    bayes_ridge(cbind(mpg, qsec) ~ hp + wt, d),
    spike_slab(mpg ~ hp + factor(cyl) + wt, d, unpenalized = "wt")
  )
  for (fit in fits) {
    expect_identical(expect_invisible(report(fit, file, question = "What <drives> it?")), file)
    text <- paste(readLines(file), collapse = "\n")
    expect_match(text, "library(pybayesridge)", fixed = TRUE)
    expect_match(text, "What &lt;drives&gt; it?", fixed = TRUE)
    expect_match(text, format(getRversion()), fixed = TRUE)
    if (identical(fit, fits[[1]])) {
      for (name in names(coef(fit))) expect_match(text, name, fixed = TRUE)
      expect_match(text, "1 observation deleted due to missingness")
    }
  }
  report(fits[[2]], file, target = "qsec", title = "One of two")
  expect_match(paste(readLines(file), collapse = "\n"), "One of two")
})

test_that("what cannot be reported is said", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  expect_error(report(fit), "'file' must be the name")
  expect_error(report(fit, 3), "'file' must be the name")
  expect_error(report(fit, tempfile(), target = "hp"), "target")
  skip_if_not(has_report(), "no jinja2 and matplotlib")
  expect_error(report(fit, "/nonexistent/folder/x.html"), "no folder")
})
