# Fits that Python saved, against the numbers that Python gave when it saved them; and the way back.

# Quantiles in both languages stop where their probabilities are this near.
quantile_error <- 1e-9

# The folder of files that every version has to read, where the Python package is its repository.
gallery_folder <- function() {
  package <- reticulate::import("pybayesridge")[["__file__"]]
  file.path(dirname(dirname(package)), "tests", "gallery", "format1")
}

# Rows 2, 6 and 9 of the gallery's data.
gallery_rows <- function() {
  reticulate::py_run_string("
def gallery_rows(folder):
    import pathlib, sys
    sys.path.insert(0, str(pathlib.Path(folder).parents[2]))
    from tests.gallery.make import data
    frame = data().iloc[[1, 5, 8]]
    return {name: frame[name].tolist() for name in frame}
", local = TRUE)$gallery_rows(gallery_folder())
}

test_that("fits that Python saved give Python's numbers", {
  skip_without_python()
  skip_if_not_installed("jsonlite")
  skip_if_not(dir.exists(gallery_folder()), "the Python package is not in its repository")
  numbers <- jsonlite::fromJSON(file.path(gallery_folder(), "numbers.json"))
  new <- as.data.frame(gallery_rows())
  new$site <- factor(new$site)
  for (name in names(numbers)) {
    expected <- numbers[[name]]
    fit <- read_fit(file.path(gallery_folder(), paste0(name, ".fit")))
    q <- length(fit$targets)
    rows <- if (fit$named) new else as.matrix(new[c("a", "b", "c")])
    expect_close(coef(fit), expected$params)
    expect_close(fit$bse, expected$bse)
    for (i in seq_len(q)) {
      expect_close(sqrt(diag(vcov(fit, target = i))), as.matrix(expected$bse)[, i])
    }
    for (i in seq_len(q)) {
      of_target <- (i - 1) * nrow(expected$conf_int) + seq_len(nrow(expected$conf_int))
      expect_close(confint(fit, level = 0.9)[of_target, ], expected$conf_int[, 2 * i - 1:0], quantile_error)
    }
    expect_close(predict(fit, rows), expected$predicted, 1e-8)
    ends <- predict(fit, rows, interval = "credible", level = 0.9)
    ends <- if (q > 1) aperm(ends[, 2:3, ], c(1, 3, 2)) else ends[, 2:3]
    expect_close(ends, expected$predicted_ends, quantile_error)
    expect_close(fit$rsquared, expected$rsquared)
    if (!is.null(expected$inclusion_prob)) expect_close(inclusion_prob(fit), expected$inclusion_prob)
    expect_output(print(fit), "read_fit\\(file")
    expect_output(print(summary(fit)), "Coefficients")
    expect_identical(dim(posterior_sample(fit, 3)), c(3L, length(fit$bse) %/% q))
    if (endsWith(name, "_removed")) {
      expect_error(fitted(fit), "no values of rows")
      expect_error(residuals(fit), "no values of rows")
      expect_error(deviance(fit), "no values of rows")
      expect_error(model.matrix(fit), "holds no data")
      if (q == 1) expect_error(generics::augment(fit), "no values of rows")
    } else {
      expect_length(fitted(fit), 24 * q)
      expect_identical(nrow(model.matrix(fit)), 24L)
      if (q == 1) expect_close(fitted(fit), predict(fit, model.matrix(fit)), 1e-8)
    }
  }
})

# Fits of Python by name, saved to files: `code` defines `fits`, a dict.
saved_by_python <- function(code, suffix = ".fit") {
  folder <- tempfile()
  dir.create(folder)
  reticulate::py_run_string(paste0("
def save_all(folder):
    import warnings
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge, SpikeSlab
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(30, 3)), columns=['a', 'b', 'c'], index=[f'r{i}' for i in range(30)])
    frame['year'] = np.tile([2001, 2002, 2003], 10)
    frame['g'] = np.tile(['u', 'v'], 15)
    frame['y'] = frame['a'] + 0.3 * frame['year'].eq(2002) + rng.normal(size=30)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
", paste0("        ", code, collapse = "\n"), "
    for name, fit in fits.items():
        fit.save(folder + '/' + name + '.fit')
    new = frame.iloc[:4].copy()
    new.iloc[1, 0] = np.nan
    return {name: np.asarray(fit.predict(new), dtype=float).tolist() for name, fit in fits.items()}
"), local = TRUE)$save_all(folder) -> predicted
  list(predicted = predicted, file = function(name) file.path(folder, paste0(name, ".fit")))
}

test_that("Python's formulas code R's data, with factors of numbers and missing values", {
  skip_without_python()
  saved <- saved_by_python(c(
    "f = 'y ~ bs(a, df=4) + C(year) + g'",
    "w = np.linspace(1, 2, 30)",
    "fits = {'ridge': BayesRidge.from_formula(f, frame, weights=w).fit(),",
    "        'selection': SpikeSlab.from_formula(f, frame, noise_var=1.0).fit(),",
    "        'plain': BayesRidge.from_formula('y ~ a + b', frame).fit()}"
  ))
  set.seed(1)
  frame <- read_fit(saved$file("plain"))
  a <- frame$x[1:4, "a"]
  new <- data.frame(a = a, b = frame$x[1:4, "b"], year = c(2001L, 2002L, 2003L, 2001L), g = c("u", "v", "u", "v"))
  new$a[2] <- NA
  for (name in c("ridge", "selection", "plain")) {
    fit <- read_fit(saved$file(name))
    expected <- unlist(saved$predicted[[name]])
    expect_close(predict(fit, new), expected, 1e-12)
    texts <- transform(new, year = factor(year), g = factor(g, levels = c("v", "u")))
    expect_close(predict(fit, texts), expected, 1e-12)
    expect_identical(names(fitted(fit))[1:2], c("r0", "r1"))
    expect_identical(is.na(predict(fit, new, interval = "prediction")[2, ]), c(fit = TRUE, lwr = TRUE, upr = TRUE))
    expect_match(fit$formula_in_python, "^y ~ ")
    expect_error(formula(fit), "made in Python")
  }
  ridge <- read_fit(saved$file("ridge"))
  expect_close(weights(ridge), seq(1, 2, length.out = 30))
  expect_close(predict(ridge, model.matrix(ridge)[3:1, ]), fitted(ridge)[3:1], 1e-10)
  expect_error(predict(ridge, new["a"]), "lack the variable")
  dated <- transform(new, a = as.Date("2020-01-01"), other = as.Date("2020-01-01"))
  expect_error(predict(ridge, dated), "'a' must have numbers")
  expect_close(predict(ridge, transform(new, other = as.Date("2020-01-01"))), unlist(saved$predicted$ridge), 1e-12)
  expect_length(predict(ridge, new[0, ]), 0)
  expect_error(predict(ridge, transform(new, g = "w")), "level")
  selection <- read_fit(saved$file("selection"))
  expect_setequal(names(inclusion_prob(selection, by = "group")), c("bs(a, df=4)", "C(year)", "g"))
  expect_identical(nrow(compare_evidence(ridge, ridge)), 2L)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_error(plot(selection), NA)
})

test_that("responses with levels keep them, and sparse columns stay sparse", {
  skip_without_python()
  skip_if_not_installed("Matrix")
  saved <- saved_by_python(c(
    "from scipy import sparse",
    "frame['yes'] = np.where(frame['y'] > 0, 'no', 'yes')",
    "class One:",
    "    def __init__(self, fit): self.fit = fit",
    "    def save(self, path): self.fit.save(path)",
    "    def predict(self, new): return [0.0]",
    "x = sparse.csc_matrix(np.where(np.abs(frame[['a', 'b', 'c']]) > 0.5, frame[['a', 'b', 'c']], 0.0))",
    "fits = {'yes': BayesRidge.from_formula('yes ~ a', frame, family='binomial', event='no').fit(),",
    "        'sparse': One(BayesRidge(frame['y'].to_numpy(), x).fit())}"
  ))
  yes <- read_fit(saved$file("yes"))
  expect_identical(yes$event, "no")
  expect_identical(levels(simulate(yes, 1, seed = 1)[[1]]), c("yes", "no"))
  expect_identical(nrow(odds_ratios(yes)), 2L)
  sparse <- read_fit(saved$file("sparse"))
  expect_s4_class(sparse$x, "dgCMatrix")
  expect_close(predict(sparse, sparse$x), fitted(sparse), 1e-10)
  expect_null(read_fit(saved$file("sparse"), model = FALSE)$x)
})

test_that("a fit that was read and kept by saveRDS() needs no Python", {
  skip_without_python()
  saved <- saved_by_python(c(
    "fits = {'ridge': BayesRidge.from_formula('y ~ bs(a, df=4)', frame).fit()}"
  ))
  fit <- read_fit(saved$file("ridge"))
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  saveRDS(fit, file)
  script <- tempfile(fileext = ".R")
  writeLines(c(
    "library(pybayesridge)", sprintf("fit <- readRDS('%s')", file),
    "x <- c(confint(fit), vcov(fit), predict(fit, interval = 'prediction'))",
    "cat(reticulate::py_available(), format(x, digits = 17), sep = '\\n')"
  ), script)
  library <- dirname(system.file(package = "pybayesridge"))
  env <- c(
    "RETICULATE_PYTHON=/nonexistent/python", "PATH=/usr/bin:/bin",
    paste0("R_LIBS=", paste(c(library, .libPaths()), collapse = .Platform$path.sep))
  )
  out <- suppressWarnings(
    system2(file.path(R.home("bin"), "Rscript"), c("--no-init-file", script), stdout = TRUE, stderr = TRUE, env = env)
  )
  expect_identical(out[1], "FALSE")
  expect_close(as.numeric(out[-1]), c(confint(fit), vcov(fit), predict(fit, interval = "prediction")))
})

test_that("files that are no fits of this version are refused with the reason", {
  skip_without_python()
  saved <- saved_by_python(c(
    "fits = {'ridge': BayesRidge.from_formula('y ~ a', frame).fit()}",
    "fits['ridge'].save(folder + '/pickle.fit', format='pickle')",
    "fits['ridge'].save(folder + '/removed.fit', remove_data=True, row_space=False)",
    "import json, zipfile",
    "fits['ridge'].save(folder + '/old.fit')",
    "with zipfile.ZipFile(folder + '/old.fit') as old, zipfile.ZipFile(folder + '/newer.fit', 'w') as newer:",
    "    content = json.loads(old.read('fit.json')) | {'format': 99, 'writer': '9.0'}",
    "    newer.writestr('fit.json', json.dumps(content))",
    "with zipfile.ZipFile(folder + '/other.fit', 'w') as other: other.writestr('a.txt', 'a')"
  ))
  good <- readBin(saved$file("ridge"), "raw", 1e6)
  writeBin(good[seq_len(length(good) - 200)], saved$file("truncated"))
  writeBin(raw(), saved$file("empty"))
  writeLines("y,x\n1,2", saved$file("text"))
  expect_error(read_fit(saved$file("truncated")), "is damaged", class = "pybayesridge_error")
  expect_error(read_fit(saved$file("newer")), "written by pybayesridge 9.0, in format 99.*upgrade pybayesridge")
  expect_error(read_fit(saved$file("other")), "it is another archive")
  expect_error(read_fit(saved$file("empty")), "it is empty")
  expect_error(read_fit(saved$file("text")), "it is no archive")
  expect_error(read_fit(saved$file("pickle")), "is a pickle, which can run code")
  expect_error(read_fit(saved$file("removed")), "row_space=False|space")
  expect_error(read_fit(saved$file("absent")), "there is no file")
  expect_error(read_fit(c("a", "b")), "'file' must be the name of a file")
})

test_that("formulas that could run other code are refused unless the file is trusted", {
  skip_without_python()
  saved <- saved_by_python("fits = {'method': BayesRidge.from_formula('y ~ a.clip(-1, 1) + b', frame).fit()}")
  file <- saved$file("method")
  expect_error(read_fit(file), "a.clip\\(-1, 1\\).*allow_code=True", class = "pybayesridge_error")
  expect_error(read_fit(file, allow_code = NA), "'allow_code' must be TRUE or FALSE")
  fit <- read_fit(file, allow_code = TRUE)
  new <- data.frame(a = c(-3, 0.5), b = c(0, 1))
  clipped <- cbind(pmin(pmax(new$a, -1), 1), new$b)
  expect_close(predict(fit, new), drop(cbind(1, clipped) %*% coef(fit)), 1e-10)
  fit$allow_code <- NULL
  expect_error(predict(fit, new), "allow_code=True")
})

test_that("save_fit() writes what Python and read_fit() read", {
  skip_without_python()
  file <- tempfile(fileext = ".fit")
  on.exit(unlink(file))
  esophagus <- esoph
  fits <- list(
    bayes_ridge(mpg ~ poly(hp, 2) + factor(cyl), mtcars, weights = qsec),
    bayes_ridge(cbind(mpg, qsec) ~ hp + wt, mtcars),
    spike_slab(mpg ~ hp + factor(cyl) + wt, mtcars, unpenalized = "wt"),
    bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esophagus, family = binomial()),
    bayes_ridge(x = as.matrix(mtcars[3:6]), y = mtcars$mpg, sigma2 = 4),
    spike_slab(mpg ~ hp + wt, mtcars, prior_inclusion = c(hp = 0.3, wt = 0.6), group = NULL, noise_var = 6),
    spike_slab(mpg ~ hp + wt, mtcars, prior_inclusion = 0.3, noise_var = 6, unpenalized = "hp"),
    spike_slab(mpg ~ hp + wt, mtcars, prior_inclusion = c(0.3, 0.6), group = c("a", "b"), noise_var = 6),
    bayes_ridge(mpg ~ 0 + hp + factor(cyl), mtcars),
    bayes_ridge(mpg ~ hp + wt, mtcars, unpenalized = c("(Intercept)", "wt"))
  )
  for (fit in fits) {
    expect_identical(expect_invisible(save_fit(fit, file)), file)
    again <- read_fit(file)
    expect_identical(coefficient_names(again), coefficient_names(fit))
    expect_close(coef(again), coef(fit), 1e-10)
    expect_close(again$bse, fit$bse, 1e-10)
    expect_close(confint(again), confint(fit), quantile_error)
    expect_close(fitted(again), fitted(fit), 1e-10)
    expect_identical(again$known_sigma2, fit$known_sigma2)
    if (!is.null(fit$terms)) expect_identical(attr(fit$terms, "intercept") == 1L, again$intercept_added)
    python <- reticulate::import("pybayesridge")$load(file)$arrays
    expect_close(python$params, coef(fit), 1e-10)
  }
  fit <- bayes_ridge(mpg ~ hp + wt, mtcars)
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(predict(again, mtcars[1:3, ], interval = "prediction"), predict(fit, mtcars[1:3, ], interval = "prediction"), quantile_error)
  save_fit(fits[[3]], file)
  expect_error(predict(read_fit(file), transform(mtcars, cyl = factor(cyl))), "lacks the column\\(s\\) 'factor\\(cyl\\)6'")
  expect_error(save_fit(again, file), "you can make a copy")
  expect_error(save_fit(fits[[1]], "/nonexistent/folder/a.fit"), "no folder")
  expect_error(save_fit(1, file), "'object' must be a fit")
  changed <- fits[[1]]
  changed$coefficients <- changed$coefficients + 1
  changed$model <- NULL
  expect_error(save_fit(changed, file), "changed since the fit|differ")
})

test_that("a fit that was read has the report of its file", {
  skip_without_python()
  skip_if_not(has_report(), "no jinja2 and matplotlib")
  saved <- saved_by_python("fits = {'ridge': BayesRidge.from_formula('y ~ a + g', frame).fit()}")
  fit <- read_fit(saved$file("ridge"))
  page <- tempfile(fileext = ".html")
  on.exit(unlink(page))
  report(fit, page, question = "What?")
  expect_match(paste(readLines(page), collapse = "\n"), "BayesRidge.from_formula", fixed = TRUE)
  unlink(saved$file("ridge"))
  expect_error(report(fit, page), "no longer there")
})
