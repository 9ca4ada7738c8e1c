"""The common part of the results of both models."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, ArrayLike, FloatArray, PathLike, PathOrFile, RandomLike, RowsLike
from pybayesridge.posterior.laws import Ask, RowLaw
from pybayesridge.results import contrast as contrasts
from pybayesridge.results import effects as variable_effects
from pybayesridge.results import files as saved
from pybayesridge.results import leave_one_out as left_out
from pybayesridge.results import maketables as for_maketables
from pybayesridge.results import predictive_checks
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.arviz import GROUPS, to_arviz
from pybayesridge.results.direction import joint_contrast
from pybayesridge.results.estimates import LinearEstimates
from pybayesridge.results.labelled import per_coefficient
from pybayesridge.results.marginaleffects import to_marginaleffects
from pybayesridge.results.plots import effects as effect_plots
from pybayesridge.results.plots import predictive as predictive_plots
from pybayesridge.results.plots import rows as row_plots
from pybayesridge.results.prediction import BayesPrediction
from pybayesridge.results.sensitivity import prior_sensitivity

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import DataTree

    from pybayesridge.results.summary.formats import FormattedSummary


class LinearResults(LinearEstimates, saved.Saveable):
    """Results of a linear model; the part common to both models: predictions, pictures, reports and files."""

    contrast = contrasts.contrast
    joint_contrast = joint_contrast
    effects = variable_effects.effects
    predictions = variable_effects.predictions
    prior_sensitivity = prior_sensitivity
    to_marginaleffects = to_marginaleffects
    t_test = contrasts.refused("t_test")
    f_test = contrasts.refused("f_test")
    wald_test = contrasts.refused("wald_test")
    pvalues = contrasts.refused("pvalues")
    tvalues = contrasts.refused("tvalues")
    loo = left_out.loo
    pit = left_out.pit
    ppc = predictive_checks.ppc
    __maketables_coef_table__ = property(for_maketables.coef_table)
    __maketables_depvar__ = property(for_maketables.response)
    __maketables_stat__ = for_maketables.stat
    __maketables_stat_labels__ = for_maketables.LABELS
    __maketables_default_stat_keys__ = property(for_maketables.default_stat_keys)
    plot_effect = effect_plots.plot_effect
    plot_fit = row_plots.plot_fit
    plot_residuals = row_plots.plot_residuals
    plot_ppc = predictive_plots.plot_ppc
    plot_pit = predictive_plots.plot_pit

    def predict(self, exog: RowsLike | None = None, transform: bool = True) -> pd.Series | pd.DataFrame:
        """Posterior mean of the linear predictor.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data: with a formula, a frame or dict with its variables; otherwise columns as in the fit (a
            frame's columns are matched by name). The rows of the fit by default.
        transform : bool
            Whether to pass new data through the formula.

        Returns
        -------
        Series, or DataFrame with a column for each target
            NaN in rows where a variable of the formula is missing.
        """
        if exog is None:
            return self.fittedvalues
        rows, labels = self.model.new_rows(exog, transform)
        return self._predicted(rows, labels)

    def _predicted(self, rows: AnyArray, labels: pd.Index) -> pd.Series | pd.DataFrame:
        """Posterior means of the linear predictor of rows of the design."""
        mean = self.model.predict(self.arrays.params, rows)
        if mean.ndim == 1:
            return pd.Series(mean, index=labels)
        return pd.DataFrame(mean, index=labels, columns=self.model.data.targets)

    def get_prediction(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        weights: ArrayLike | str | None = None,
        row_labels: Sequence[Hashable] | pd.Index | None = None,
    ) -> BayesPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible and prediction intervals.

        Parameters
        ----------
        exog : array-like or frame, optional
            As for :meth:`predict`.
        transform : bool
            Whether to pass new data through the formula.
        weights : float, (m,) array-like or str, optional
            Precision weights of new observations, in the units of the fit's weights, or the column of `exog` with
            them; those of the fit for its own rows, and their mean for new ones.
        row_labels : sequence, optional
            Labels of the rows, instead of those of `exog`.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit()
        >>> frame = res.get_prediction({"GNP": [555000], "UNEMP": [4000]}).summary_frame(alpha=0.1)
        >>> frame[["mean", "obs_ci_lower", "obs_ci_upper"]].round(0).to_numpy().tolist()
        [[71175.0, 70082.0, 72258.0]]
        """
        law, labels = self.law_of_new(exog, transform)
        noise = self.model.noise_factors(labels, weights, exog)
        return self._prediction(law, noise, labels if row_labels is None else pd.Index(row_labels))

    def law_of_new(self, exog: RowsLike | None, transform: bool) -> tuple[RowLaw, pd.Index]:
        """The law of the linear predictor of rows to predict, and their labels. Internal."""
        rows, labels = self.model.new_rows(exog, transform)
        return self.law_of_rows(rows), labels

    def _prediction(self, law: RowLaw, noise: FloatArray, labels: pd.Index) -> BayesPrediction:
        """Predictions with the law of the linear predictor of rows, whose noise factors and labels are given."""
        found = law.ask(Ask())

        def interval(alpha: float, obs: bool) -> FloatArray:
            tails = check_alpha(alpha) / 2, 1 - alpha / 2
            return (law.with_noise(noise) if obs else law).ask(Ask(tails, sd=False)).quantiles

        return BayesPrediction(
            found.mean,
            found.sd,
            np.outer(noise, np.atleast_1d(self.arrays.sigma2)),
            interval,
            labels,
            None if self.model.one_target else self.model.data.targets,
            found.mcse,
        )

    def to_arviz(
        self, draws: int = 1000, chains: int = 4, rng: RandomLike = None, groups: Sequence[str] = GROUPS
    ) -> DataTree | InferenceData:
        """Posterior draws in the container of ArviZ, for ``az.loo``, ``az.plot_forest`` and similar functions.

        The draws are independent, so that the chains differ by chance alone.

        Parameters
        ----------
        draws : int
            Draws of each chain.
        chains : int
            How many chains.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        groups : sequence of str
            Some of ``"posterior"``, ``"posterior_predictive"``, ``"log_likelihood"``, ``"observed_data"``,
            ``"log_prior"``; all by default. The second and third hold ``chains * draws * n`` numbers for each target.

        Returns
        -------
        xarray.DataTree (ArviZ 1) or arviz.InferenceData (ArviZ 0.x)
            ``posterior`` has ``beta`` over ``term`` (and ``target``, where there are several), ``sigma2`` and for a
            BayesRidge ``tau2``; those of the last two that the method fixes (both for ``"em"``) are in
            ``constant_data`` instead. ``log_prior``, for power-scaling, has ``tau2``: the log prior density of log
            tau2 at the draws; there is none where the method fixes tau2. The other groups have a variable for each
            target, named as it is, over ``__obs__``, whose coordinates are the row labels.

        Raises
        ------
        ImportError
            Without ArviZ: ``pip install 'pybayesridge[arviz]'``.
        ValueError
            For an unknown group, data that were removed, or a density that does not exist since there is no noise.
        """
        return to_arviz(self.model, self._draw_chain, draws=draws, chains=chains, rng=rng, groups=groups)

    def summary(self, alpha: float = 0.05, direction: bool = False) -> FormattedSummary:
        """Regression table: posterior mean, standard deviation and interval of every coefficient.

        Of selections also the inclusion probabilities, of several penalties the standard deviations and shares of the
        bands. Tables of more than 60 coefficients show the most important ones first, those of groups and curves
        after all others, and say how many are left out.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        direction : bool
            Add a column with the posterior probability that each coefficient is positive, ``P(>0)``.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Prints as text; ``as_html()``, ``as_latex()``, ``as_csv()``.
        """
        from pybayesridge.results.summary.fit import summary

        return summary(self, check_alpha(alpha), direction)

    def importance(self, target: int) -> FloatArray:
        """What variables are ordered by in reports: how large the coefficients are, (k,)."""
        return np.abs(self.standardized_size(target))

    def left_out_predictions(self, target: int) -> FloatArray:
        """Predictions of the rows of a target from the others, (n,)."""
        found: Any = self.loo(target=target).predicted
        out: FloatArray = found.to_numpy()
        return out

    @per_coefficient
    def prob_positive(self) -> FloatArray:
        """Posterior probability that each coefficient is positive, (k,) or (k, q).

        Of a SpikeSlab without the probability of exactly zero, which is its `prob_zero`.
        """
        return self._squeeze(self.ask(Ask(mean=False, sd=False, above=True)).above)

    def report(
        self,
        path: PathLike,
        *,
        title: str | None = None,
        question: str | None = None,
        target: str | int | None = None,
        alpha: float = 0.05,
    ) -> Path:
        """Write a report: an HTML file with tables, plots, predictive checks and the code that reproduces the fit.

        The file needs no other file and no network, follows the reader's choice of light or dark, and prints.
        Of results without the rows of their data it says what is missing.

        Parameters
        ----------
        path : str or os.PathLike
            File to write; one that is there is overwritten.
        title : str, optional
            Heading; by default the model and the response.
        question : str, optional
            What the analysis is to answer; a paragraph under the heading.
        target : str or int, optional
            Report one of several targets, by name or position. By default all have a row in the table of targets,
            the first ten tables of coefficients, and the first three pictures.
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        pathlib.Path
            Of the file.

        Raises
        ------
        ValueError
            For an unknown target, or a path that is none.
        OSError
            If the file cannot be written; a missing folder is not made.
        ImportError
            If jinja2 or matplotlib is missing: ``pip install 'pybayesridge[report]'``.
        """
        from pybayesridge.report import write_report

        i = None if target is None else target_position(self.model.data.targets, target, "report")
        return write_report(self, path, title=title, question=question, target=i, alpha=check_alpha(alpha))

    def save(
        self, fname: PathOrFile, remove_data: bool = False, row_space: bool = True, format: str = "portable"
    ) -> None:
        """Write the results to a file, which :func:`pybayesridge.load` reads.

        An old file is replaced only once the new one is complete.

        Parameters
        ----------
        fname : str, os.PathLike or binary file
        remove_data : bool
            Leave out what :meth:`remove_data` drops; it says what the file then tells of the data. These results keep
            it.
        row_space : bool
            With ``remove_data=True`` only: whether the file holds the space that the rows span; see
            :meth:`remove_data`.
        format : {"portable", "pickle"}
            ``"portable"``: text and numbers, which later versions read and which run no code when they are read;
            functions that a formula uses are not in the file. ``"pickle"``: a pickle with a checksum, which holds any
            Python object.

        Raises
        ------
        OSError
            If the file cannot be written; what was there before is still there.
        ValueError
            For ``row_space=False`` without ``remove_data=True``. If the results hold something that is neither text
            nor numbers, such as row labels of an unusual type.
        """
        saved.write(self.as_saved(remove_data, row_space), fname, format)

    @classmethod
    def load(cls, fname: PathOrFile, *, allow_code: bool = False) -> LinearResults:
        """Read results that :meth:`save` wrote, as :func:`pybayesridge.load` does."""
        found: LinearResults = saved.read(fname, saved.Saveable, allow_code=allow_code)
        return found

    def as_saved(self, remove_data: bool, row_space: bool) -> Self:
        """These results, or a copy of them without data; the copy shares the other arrays."""
        if not remove_data:
            if not row_space:
                raise ValueError("row_space=False requires remove_data=True: the data span the space of their rows")
            return self
        self._settle()
        out = copy.copy(self)
        out.model = copy.copy(self.model)
        out.model.data = copy.copy(self.model.data)
        out.remove_data(row_space)
        return out

    def remove_data(self, row_space: bool = True) -> None:
        """Remove the rows of the data, so that saved results are small and contain no row.

        The response, the columns, the weights, residuals, fitted values and the labels of rows are dropped.
        Coefficients, intervals, the summary and predictions for new rows still work; what runs over the rows of the
        fit (fitted values, residuals) raises a ValueError.

        Parameters
        ----------
        row_space : bool
            Whether to keep the space that the rows span, which joint statements about coefficients need: the
            uncertainty of predictions, ``cov_params``, ``sample``, ``contrast``, and ``credible_sets`` with other
            arguments than the default ones. Without it these raise a ValueError; means, standard deviations and
            intervals of single coefficients (for an `alpha` of at least 2e-7), mean predictions and the summary stay.

        Raises
        ------
        ValueError
            For ``row_space=False`` with as many responses as degrees of freedom, whose coefficients span that space,
            and of ``SpikeSlab.fit("exact")`` with at most 15 columns and fewer degrees of freedom: the probabilities
            of all sets of columns determine it.

        Notes
        -----
        With ``row_space=True`` these results hold, of the data: the number of rows; means and standard deviations of
        the columns; names of columns and levels of factors; the coefficients; and what is equivalent to the
        cross-products X'X of the standardised columns (of SpikeSlab and of fits from moments also X'y). Where there
        are fewer rows than columns X'X determines the space that the standardised rows span: **whoever has the file
        and a row of data can tell whether that row was among those of the fit**. Treat such a file like the data.

        With ``row_space=False`` neither that space nor the cross-products are in the file, but the number of rows,
        means and standard deviations of the columns, names and levels, singular values, and of each coefficient its
        posterior; of ``SpikeSlab.fit("exact")`` also the visited sets of columns with their probabilities, which
        indicate how strongly likely columns are correlated, and the default credible sets with their least
        correlations. Coefficients are themselves a combination of the rows, one for each response, and a level of a
        factor that one person alone has tells of that person: no summary of data is anonymous by construction.
        """
        if not row_space and self.has_joint_posterior and len(self.model.data.targets) >= self.posterior.design.nu:
            raise ValueError(
                f"{len(self.model.data.targets)} responses for {self.nobs:.0f} rows: their coefficients span the "
                "space of the rows, so that it cannot be left out; save the responses in separate fits"
            )
        self._settle()
        self._release_rows(row_space)
        self.model.forget_rows(row_space)
        for name in ("fittedvalues", "resid", "_left_out"):
            self.__dict__.pop(name, None)

    def _settle(self) -> None:
        """Compute the numbers that stay when the rows are removed."""
        _ = self.rsquared, self.precision_loss
