test_that("findings are Python's, with their severity, and the summary shows them", {
  skip_without_python()
  d <- data.frame(y = rep(c(1, -1), 10), x = rep(c(1, -1), each = 10))
  expect_warning(fit <- bayes_ridge(y ~ x, d, method = "em", prior = c(1, 0.5)), "^No signal")
  expect_named(fit$findings, c("code", "severity", "text"))
  expect_identical(fit$findings$severity[fit$findings$code == "no-signal"], "warning")
  expect_match(fit$findings$text, "^No signal", all = FALSE)
  expect_false("constant-serves" %in% fit$findings$code)
  expect_match(summary(fit)$notes, "^Warning: No signal", all = FALSE)
  expect_true(all(summary(fit)$notes %in% c(fit$findings$text, paste("Warning:", fit$findings$text))))
  shown <- paste(capture.output(print(summary(fit))), collapse = " ")
  expect_match(gsub("[[:space:]]+", " ", shown), "- Warning: No signal: all coefficients", fixed = TRUE)
})

test_that("rows that R leaves out are a finding too", {
  skip_without_python()
  d <- mtcars
  d$hp[3] <- NA
  found <- summary(bayes_ridge(mpg ~ hp, d))$notes
  expect_match(found, "1 observation deleted due to missingness", all = FALSE)
})

test_that("the call in a report makes the same fit again", {
  skip_without_python()
  skip_if_not(has_report(), "no jinja2 and matplotlib")
  file <- tempfile(fileext = ".html")
  on.exit(unlink(file))
  d <- mtcars
  d$hp[3] <- NA
  x <- as.matrix(mtcars[3:5])
  fits <- list(
    bayes_ridge(mpg ~ hp + factor(cyl), d, weights = qsec, method = "em", prior = c(1, 2)),
    bayes_ridge(mpg ~ log(hp) + wt, d, subset = wt > 2, unpenalized = "wt", standardize = FALSE),
    bayes_ridge(mpg ~ 0 + hp + wt, d, method = "loocv", grid = c(0.01, 0.1, 1, 10)),
    spike_slab(mpg ~ hp + factor(cyl) + wt, d, group = NULL, prior_inclusion = 0.3),
    spike_slab(x = x, y = mtcars$mpg, method = "damped", damping = 0.4)
  )
  for (fit in fits) {
    report(fit, file)
    text <- paste(readLines(file), collapse = "\n")
    code <- regmatches(text, regexpr('(?s)(?<=<pre class="code">).*?(?=</pre>)', text, perl = TRUE))
    for (pair in list(c("&lt;", "<"), c("&gt;", ">"), c("&#34;", '"'), c("&#39;", "'"), c("&amp;", "&"))) {
      code <- gsub(pair[1], pair[2], code, fixed = TRUE)
    }
    again <- eval(parse(text = code))
    expect_equal(coef(again), coef(fit), tolerance = 1e-12)
    expect_equal(again$bse, fit$bse, tolerance = 1e-12)
  }
})
