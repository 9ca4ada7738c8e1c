# How numbers are printed; no Python is needed.

test_that("the numbers of a column have the same decimals, thousands separators and a bare zero", {
  expect_identical(alike(c(1239.5, -2, 0), 5), c("1,239.5", "   -2.0", "      0"))
  expect_identical(alike(c(a = 1.5, b = NA), 4), c(a = "1.5", b = " NA"))
  expect_identical(trimws(alike(c(1.5e9, 2e-9), 3)), c("1.5e9", "2.0e-9"))
  expect_identical(trimws(alike(c(-1239000, 49.15, 0.008875), 4)), c("-1,239,000", "49.15", "0.008875"))
  expect_identical(trimws(alike(c(1.234e9, 2.5, 0, 1e-7), 4)), c("1.234e9", "2.500", "0", "1.000e-7"))
  expect_identical(trimws(alike(c(999.96, 1), 4)), c("999.96", "1.00"))
})

test_that("numbers in a sentence are written each on its own", {
  expect_identical(singly(c(1239456, 0.5, 0, 1e-12), 4), c("1,239,456", "0.5", "0", "1e-12"))
})

test_that("inclusion probabilities have three decimals", {
  expect_identical(probabilities(c(a = 1, b = 0.0004)), c(a = "1.000", b = "0.000"))
})

test_that("a decimal comma leaves no doubt about thousands", {
  old <- options(OutDec = ",")
  on.exit(options(old))
  expect_silent(shown <- alike(c(1234.5, 2.25), 6))
  expect_identical(shown, c("1234,50", "   2,25"))
})
