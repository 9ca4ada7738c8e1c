"""Ratios of odds and of rates: exponentials of coefficients, of one fit or pooled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from pybayesridge.families.registry import those_with
from pybayesridge.text import either


class Ratios:
    """Results with the ratios that their family has; a base of theirs."""

    model: Any

    def odds_ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Odds ratios with credible intervals; for the logit link.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        terms : str or sequence of str, optional
            Coefficients, by column or by term of the formula; all by default.

        Returns
        -------
        DataFrame
            A row for each coefficient, of pooled fits of their mixture: ``odds_ratio``, the exponential of `params`;
            ``lower`` and ``upper``, those of the interval; ``prob_above_1``, the posterior probability that the odds
            rise with the column; of a SpikeSlab ``prob_equal_1``, that they do not depend on it, and if sets of
            columns were sampled ``mcse``, the Monte Carlo standard error of the odds ratio. The intercept's row has
            the odds where every column is 0.

        Raises
        ------
        ValueError
            For the probit link, whose coefficients are no log odds ratios, an unknown term, or pooled fits of another
            family.
        """
        return self._named_ratios("odds_ratios", alpha, terms)

    def rate_ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Rate ratios with credible intervals.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        terms : str or sequence of str, optional
            Coefficients, by column or by term of the formula; all by default.

        Returns
        -------
        DataFrame
            A row for each coefficient, of pooled fits of their mixture: ``rate_ratio``, the exponential of `params`:
            the factor of the expected count for one more unit of the column; ``lower`` and ``upper``, those of the
            interval; ``prob_above_1``, the posterior probability that the rate rises with the column. The
            intercept's row has the rate where every column is 0.

        Raises
        ------
        ValueError
            For an unknown term, or pooled fits of another family.
        """
        return self._named_ratios("rate_ratios", alpha, terms)

    def ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Exponentials of the coefficients, named as the family calls them: odds ratios or rate ratios. Internal."""
        raise NotImplementedError

    def _named_ratios(self, name: str, alpha: float, terms: str | Sequence[str] | None) -> pd.DataFrame:
        family = self.model.distribution
        if name not in family.own:
            raise ValueError(f"{name}() is for fits with family={either(those_with(name))}")
        if not family.ratio:
            raise ValueError(
                f"odds_ratios() is for link='logit': coefficients of the {family.link} link are no log odds"
            )
        return self.ratios(alpha, terms=terms)
