"""Models of columns that are not in memory: the data, and the constructor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, ColumnsLike, FloatArray, TableLike
from pybayesridge.data.arrays import NamedColumns, as_column_names, as_matrix, constant_values
from pybayesridge.data.blocks import labels_of
from pybayesridge.data.frames import to_pandas
from pybayesridge.data.prepare import ModelData, prepare
from pybayesridge.design.build import build_design
from pybayesridge.design.columns import ColumnStream, Detached
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.design.unpenalized import Unpenalized, factorize
from pybayesridge.design.wide import WideProducts
from pybayesridge.models.sources import Layout, RowData
from pybayesridge.recipes import call_of

if TYPE_CHECKING:
    from pybayesridge.recipes import Call


@dataclass(frozen=True)
class OpenColumns:
    """What ``from_columns`` is given besides the arguments of the class.

    Attributes
    ----------
    source : object
        The penalised columns.
    unpenalized : array-like or None
        The unpenalised ones.
    names : str, sequence of str or None
    transposed : bool
    progress : bool or None
    """

    source: Any
    unpenalized: Any
    names: str | Sequence[str] | None
    transposed: bool
    progress: bool | None


@dataclass(frozen=True)
class ColumnData(RowData):
    """Rows of the response and of the unpenalised columns in memory, the others read in blocks.

    Attributes
    ----------
    data : ModelData
        Without the matrix of columns.
    weight_mean, weights
        As of :class:`pybayesridge.models.sources.RowData`.
    covariates : (n, k) array
        The unpenalised columns as they were given.
    stream : ColumnStream
        The penalised ones.
    ready : list of WideProducts
        Results of the first pass, until a design is made of them.
    """

    covariates: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    stream: ColumnStream = field(default_factory=lambda: Detached((0, 0), 0))
    ready: list[WideProducts] = field(default_factory=list, repr=False)

    why_no_rows = (
        "this requires the columns of the fit in memory, and they are read in blocks: fittedvalues, "
        "get_prediction(), loo() and ppc() do without them"
    )

    @classmethod
    def read(
        cls,
        endog: TableLike | None,
        given: OpenColumns,
        *,
        weights: ArrayLike | None,
        standardize: bool,
        **options: Any,
    ) -> tuple[ModelData, ColumnData]:
        """Check the rows, open the source and take the first pass."""
        from pybayesridge.streams.sources import open_columns

        labels = labels_of(endog)
        z, k = _covariates(given.unpenalized, endog)
        options["unpenalized"] = np.arange(k)
        data = prepare(endog, z, weights=weights, **options)
        rows = RowData.of(data, data.weights)
        stream: Any = open_columns(
            given.source,
            rows.n,
            first=k,
            labels=labels,
            names=given.names,
            transposed=given.transposed,
            progress=given.progress,
        )
        covariates = np.asarray(data.exog, dtype=np.float64)
        out = cls(data, rows.weight_mean, rows.weights, covariates=covariates, stream=stream)
        layout = Layout.of(data, out.constants())
        out.ready.append(stream.products(out.block(layout), standardize=standardize))
        data.exog_columns = as_column_names([*data.exog_columns, *stream.names])
        if data.intercept_name is not None and data.intercept_name in data.exog_columns:
            raise ValueError(
                f"a column of the source is named {data.intercept_name!r}, as the intercept is: rename it"
            )
        data.exog = data.orig_exog = None
        return data, out

    def constants(self) -> dict[int, float]:
        """Unpenalised columns whose values are all equal, and the value; other constants get coefficient 0."""
        return constant_values(self.covariates)

    def unpenalized(self, layout: Layout) -> FloatArray:
        """The unpenalised columns, the intercept among them, (n, k)."""
        return np.column_stack([np.ones((self.n, int(layout.added))), self.covariates[:, layout.unpenalized]])

    def block(self, layout: Layout) -> Unpenalized:
        """The unpenalised columns, factorised."""
        root = None if self.weights is None else np.sqrt(self.weights)
        return factorize(self.unpenalized(layout), root, layout.z_names, layout.z_constant)

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """The design and its cross-products; of the first pass, or of another one if these were used up."""
        wide = self.ready.pop() if self.ready else None
        if wide is None:
            wide = self.stream.products(self.block(layout), standardize=standardize)
        endog = self.data.endog
        design, products = build_design(
            endog[:, None] if endog.ndim == 1 else endog,
            self.stream,
            penalized=layout.penalized,
            z=self.unpenalized(layout),
            z_names=layout.z_names,
            z_constant=layout.z_constant,
            weights=self.weights,
            standardize=standardize,
            constant_serves=serves,
            wide=wide,
        )
        return design, products, 0.0


def _covariates(given: Any, endog: Any) -> tuple[Any, int]:
    """The unpenalised columns as an argument of :func:`prepare`, and how many there are."""
    given = to_pandas(given, "unpenalized")
    if given is None:
        n = np.shape(to_pandas(endog, "endog"))[0] if np.ndim(to_pandas(endog, "endog")) else 0
        return np.empty((n, 0)), 0
    if isinstance(given, pd.Series):
        given = given.to_frame(name="z1" if given.name is None else given.name)
    if isinstance(given, pd.DataFrame):
        return given, given.shape[1]
    if isinstance(given, str) or np.ndim(given) == 0:
        raise ValueError(
            f"unpenalized of from_columns must be an array or a frame with a row for each observation, not {given!r}"
        )
    matrix = as_matrix(given, "unpenalized")
    return NamedColumns(matrix, [f"z{j + 1}" for j in range(matrix.shape[1])]), matrix.shape[1]


class ColumnModel:
    """The constructor of a model whose columns are read in blocks."""

    call: Call
    family: str

    @classmethod
    def from_columns(
        cls,
        endog: TableLike,
        source: ColumnsLike,
        *,
        unpenalized: TableLike | None = None,
        names: str | Sequence[str] | None = None,
        transposed: bool = False,
        intercept: bool = True,
        weights: ArrayLike | None = None,
        standardize: bool = True,
        prior: str | tuple[float, ...] = "r2",
        sigma2: float | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Build the model from columns that are read in blocks: few rows, and columns by the million.

        Memory holds a block of columns, the n x n matrix of the cross-products of the rows and a few numbers for each
        column. The columns are read once to build and fit the model; quantities that concern the rows and the penalty
        (fitted values, leave-one-out, hyperparameters) take no other pass, and coefficients, their standard
        deviations and their intervals one each. The fit equals that of the same columns in memory.

        Parameters
        ----------
        endog : (n,) or (n, q) array-like
            The response, or several.
        source : array, blocks, function, path or Dask array
            The penalised columns. Anything with ``shape``, ``dtype`` and ``x[:, a:b]``: an array of NumPy (also
            ``np.memmap``), zarr or h5py, read some chunks at a time. A list of blocks (n, b), arrays or frames; or a
            function without arguments that returns a new iterator of blocks for each pass. Parquet: a file, several
            side by side, or a folder of such. A Dask array: cross-products and coefficients are computed where its
            chunks of columns are.
        unpenalized : (n, k) array or frame, optional
            Columns with a flat prior, which are in memory; a constant one serves as the intercept.
        names : sequence of str, or str with ``transposed=True``
            Names of the columns; or the name of the column of Parquet files or frames that holds them. By default
            those of frames and Parquet columns, else x1, x2, …
        transposed : bool, default False
            Whether each row of the source is a column of X, as in files with a row for each genetic variant. If
            `endog` is a Series with labels, those are the names of the columns of Parquet files and frames that are
            read, in this order; else all are.
        intercept : bool, default True
            Whether there is an unpenalised intercept. Constant columns of the source have coefficient 0.
        weights, standardize, prior, sigma2
            As for the class.
        progress : bool, optional
            Show a bar on stderr; by default only where that is a terminal.

        Raises
        ------
        ValueError
            For bad data, naming the column; for a source that can be read only once, such as a generator, or that
            gives other columns when it is read again.
        ImportError
            Without pyarrow or Dask, which the extras ``stream`` and ``dask`` bring, if the source requires them.

        Examples
        --------
        >>> import numpy as np
        >>> from pybayesridge import BayesRidge
        >>> rng = np.random.default_rng(0)
        >>> genotypes = rng.binomial(2, 0.3, size=(100, 5000)).astype(np.int8)
        >>> trait = genotypes[:, :200].sum(axis=1) + rng.normal(size=100)
        >>> model = BayesRidge.from_columns(trait, lambda: np.split(genotypes, 10, axis=1))
        >>> res = model.fit()
        >>> print(len(res.params), res.solver)
        5001 dual
        """
        call = call_of(f"{cls.__name__}.from_columns", cls.from_columns, locals())
        if not isinstance(intercept, bool | np.bool_):
            raise ValueError(f"intercept must be True or False, not {intercept!r}")
        opened = OpenColumns(source, unpenalized, names, bool(transposed), progress)
        made: Any = cls
        model: Self = made(
            endog, opened, intercept=intercept, weights=weights, standardize=standardize, prior=prior, sigma2=sigma2
        )
        model.call = call
        return model
