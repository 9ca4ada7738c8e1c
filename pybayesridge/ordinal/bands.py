"""Ordered categories with several penalties: the fits, apart since most fits of ordered categories do without."""

from __future__ import annotations

from typing import ClassVar

from pybayesridge.ordinal.posterior import OrdinalPosterior
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.posterior import SitesPosterior


class OrdinalBandFit(BandSitesFit):
    """The outcome of one method: nodes are those of cut points and coefficients together."""

    __slots__ = ()
    kind: ClassVar[type[SitesPosterior]] = OrdinalPosterior
