"""Models of yes/no responses: how the response becomes successes among trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray, TableLike
from pybayesridge.binomial.likelihood import Binomial, Link, from_counts, probability
from pybayesridge.data.prepare import ModelData
from pybayesridge.data.responses import BinaryResponse, check_both, code_response, proportions
from pybayesridge.results.arguments import check_which

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel

    Base = LinearModel
else:
    Base = object

LINKS = ("logit", "probit")


class BinaryResponses(Base):
    """The part of a model that is about yes/no responses; goes before the model in the list of bases."""

    link: Link
    _binary: ClassVar[bool] = True

    def _take_response(self, *, link: object, event: object, trials: object) -> None:
        """Check and keep the arguments about the response."""
        if link not in (None, *LINKS):
            raise ValueError(f"link must be 'logit' or 'probit', not {link!r}")
        self.link = "probit" if link == "probit" else "logit"
        self._event, self._counts = event, trials is not None

    def _coded(self, endog: TableLike | None) -> TableLike | None:
        if endog is None:
            raise ValueError("family='binomial' needs rows: moments do not determine its likelihood")
        self.response: BinaryResponse = code_response(endog, self._event, counts=self._counts)
        values: TableLike = self.response.values
        self.response = BinaryResponse(None, self.response.event, self.response.other)
        return values

    def _checked_response(self, data: ModelData) -> FloatArray:
        share: FloatArray = data.endog
        if data.trials is not None:
            share = proportions(data.endog, data.trials, data.row_labels)
        check_both(share, self.response)
        return share

    @property
    def event(self) -> str:
        """The level whose probability is modelled, as text; "success" where there are trials."""
        return self.response.event

    def likelihood(self) -> Binomial:
        """Successes and failures of the rows."""
        data: ModelData = self.data
        if data.endog is None:
            raise ValueError(self.why_no_rows)
        trials = np.ones(self.nobs) if data.trials is None else data.trials
        return from_counts(np.rint(data.endog * trials), trials, data.weights, self.link)

    def predict(self, params: ArrayLike, exog: TableLike | None = None, which: str = "mean") -> FloatArray:
        """Probabilities at rows of exog for given coefficients, (m,); linear predictors with ``which="linear"``.

        The columns are those of the fit, with or without the intercept that was added.
        """
        linear = super().predict(params, exog)
        return linear if check_which(which) == "linear" else probability(linear, self.link)
