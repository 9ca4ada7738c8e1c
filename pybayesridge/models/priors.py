"""The models with their priors, as their results know them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import AnyArray, FloatArray, IntArray, RowsLike
from pybayesridge.data.arrays import refuse_infinite
from pybayesridge.data.bands import Bands
from pybayesridge.data.groups import Groups
from pybayesridge.design.design import Design
from pybayesridge.formula.late import build as formulas
from pybayesridge.late import Late
from pybayesridge.models.base import LinearModel
from pybayesridge.ridge.likelihood import Dof, GaussianNoise
from pybayesridge.ridge.prior import BetaPrime

if TYPE_CHECKING:
    from pybayesridge.binomial.link import Link
    from pybayesridge.ep.model import groups as of_groups
    from pybayesridge.ep.model import hyper_prior, hyperparameters
    from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
    from pybayesridge.sites.prior import FlatIn
else:
    of_groups = Late("pybayesridge.ep.model.groups")
    hyper_prior = Late("pybayesridge.ep.model.hyper_prior")
    hyperparameters = Late("pybayesridge.ep.model.hyperparameters")


class RidgeModel(LinearModel):
    """A linear model whose penalised coefficients have a common variance with a prior.

    Attributes
    ----------
    prior_of_tau2 : BetaPrime
    known_sigma2 : float or None
        The noise variance, where it is given.
    bands : Bands or None
        Columns with a penalty of their own.
    link, event, flat_in
        As the model's arguments; only families that have them give them to the model.
    """

    prior_of_tau2: BetaPrime
    known_sigma2: float | None
    bands: Bands | None = None
    link: Link
    event: str
    flat_in: FlatIn

    @property
    def keeps_sparse(self) -> bool:
        """Whether sparse rows stay so: with several penalties."""
        return self.bands is not None

    def noise(self, dof: Dof = "nu", sigma2: float | None = None) -> GaussianNoise:
        """The noise variance, known or not, or held at a value; and the degrees of freedom. Internal."""
        return GaussianNoise(self.known_sigma2 if sigma2 is None else sigma2, dof)

    def rows_with_groups(
        self, exog: RowsLike | None, transform: bool, *, groups: bool = True
    ) -> tuple[AnyArray, FloatArray, pd.Index]:
        """New data as columns of exog, also with new groups; what multiplies the effects of these; and row labels.

        The second has a column for each band: zero at rows of known groups. Without `groups` the effects of all
        groups are left out.
        """
        spec, bands = self.formula_spec, self.bands
        assert bands is not None
        of_formula = () if spec is None else spec.bands
        if exog is None or not transform or spec is None:
            rows, labels = self.new_rows(exog, transform)
            unseen = np.zeros((rows.shape[0], len(bands.names)))
        else:
            plain, coded, labels = formulas.transform_with_bands(spec, exog)
            rows = formulas.matrix_of(formulas.joined(plain, coded))
            refuse_infinite(rows, self.data.exog_columns)
            unseen = np.zeros((rows.shape[0], len(bands.names)))
            for each in coded:
                unseen[:, bands.names.index(each.band.name)] = each.unseen
        left_out = [bands.names.index(band.name) for band in of_formula if band.kind == "group" and not groups]
        if left_out:
            gone, unseen = np.isin(bands.of_column, left_out), np.zeros_like(unseen)
            if sparse.issparse(rows):
                rows = sparse.csc_matrix(rows @ sparse.diags(np.where(gone, 0.0, 1.0)))
            else:
                rows = np.array(rows)
                rows[:, gone] = 0.0
        return rows, unseen, labels


class SelectionModel(LinearModel):
    """A linear model with columns, or groups of columns, that are in or out.

    Attributes
    ----------
    prior_inclusion : float, (p,) array or None
        Of the columns of exog; None where it is learned.
    slab_var, noise_var : float or None
        None where they are learned.
    expected_size : float
        Number of columns expected a priori, where `prior_inclusion` is learned.
    groups : Groups
    grouped_by : {"column", "term", "labels"}
    link, event
        As the model's arguments; only families that have them give them to the model.
    """

    prior_inclusion: float | FloatArray | None
    slab_var: float | None
    noise_var: float | None
    expected_size: float
    groups: Groups
    grouped_by: str
    link: Link
    event: str

    def groups_of(self, design: Design) -> IntArray | None:
        """The group of each penalised column that varies, (p,); None where each is on its own."""
        return of_groups.compress(self.groups.of_column[design.columns], np.ones(design.p, dtype=bool))

    def with_prior_odds(self, factor: float, n_units: int) -> SelectionModel:
        """The same model with prior odds of inclusion that are multiplied by a factor. Internal.

        Where the prior inclusion probability of the columns (or groups, so many) is learned, these are the odds in
        the middle of its prior, which `expected_size` determines.
        """
        out, given = copy.copy(self), self.prior_inclusion
        if given is not None:
            out.prior_inclusion = factor * given / (1 - given + factor * given)
        else:
            size = hyper_prior.median_size(self.expected_size, n_units)
            odds = factor * size / (n_units - size)
            out.expected_size = n_units * odds / (1 + odds)
        return out

    def known(self, design: Design) -> KnownHyperparameters:
        """Given hyperparameters in the units of the design: a response of norm 1 and columns divided by `scale`."""
        p = self.prior_inclusion
        if p is not None:
            p = np.full(design.p, p) if np.ndim(p) == 0 else np.asarray(p)[design.columns]
        unit = design.y_norm[0]
        return hyperparameters.KnownHyperparameters(
            prior_inclusion=p,
            slab_var=None if self.slab_var is None else (np.sqrt(self.slab_var) * design.common_scale / unit) ** 2,
            noise_var=None if self.noise_var is None else (np.sqrt(self.noise_var) / unit) ** 2,
        )
