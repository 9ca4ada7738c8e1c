"""The common part of both models: data input, construction of designs, coding of new rows."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from statsmodels.base.model import Model

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.data.frames import to_pandas
from pybayesridge.data.prepare import (
    ModelData,
    as_exog,
    as_weights,
    check_weights,
    constant_values,
    prepare,
    refuse_infinite,
)
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design, build_design
from pybayesridge.design.from_moments import constants_of, design_of_moments, prepare_moments
from pybayesridge.formula import build as formulas
from pybayesridge.linalg.blocks import block_size
from pybayesridge.models.streamed import StreamedModel
from pybayesridge.moments.moments import Moments
from pybayesridge.text import listed


class LinearModel(StreamedModel, Model):
    """A linear model with penalised and unpenalised columns, on statsmodels' ``Model``.

    Subclasses set ``_max_targets``, the ``_formula_defaults`` of their arguments where a formula has others, and add
    their own arguments.
    """

    _max_targets: ClassVar[int | None] = 1
    _formula_defaults: ClassVar[dict[str, Any]] = {}
    _formula_data: formulas.FormulaData | None = None
    _with_intercept: Any = None

    def __init__(
        self,
        endog: Any,
        exog: Any,
        *,
        intercept: bool | str,
        weights: Any,
        unpenalized: Any,
        standardize: bool,
        missing: str,
        formula_data: formulas.FormulaData | None = None,
    ) -> None:
        if not isinstance(standardize, bool | np.bool_):
            raise ValueError(f"standardize must be True or False, not {standardize!r}")
        if not isinstance(intercept, bool | np.bool_) and not (isinstance(intercept, str) and intercept == "add"):
            raise ValueError(f"intercept must be True, False or 'add', not {intercept!r}")
        options: dict[str, Any] = {
            "intercept": intercept,
            "unpenalized": unpenalized,
            "max_targets": self._max_targets,
            "terms": None if formula_data is None else formula_data.terms,
            "find_constant": formula_data is None,
        }
        self.moments = exog if isinstance(exog, Moments) else None
        if self.moments is not None:
            data = prepare_moments(self.moments, **options)
        else:
            data = prepare(endog, exog, weights=weights, missing=missing, **options)
        self.formula_spec = None if formula_data is None else formula_data.spec
        if formula_data is not None:
            data.n_dropped += formula_data.n_dropped
            data.library = formula_data.library
            self.formula = formula_data.spec.formula
        self.standardize = bool(standardize)
        self.nobs = int(data.endog.shape[0]) if self.moments is None else self.moments.n
        self.one_target = isinstance(data.ynames, str)
        self.weighted = data.weights is not None
        self.weight_mean = 1.0
        self.weights: FloatArray | None = None
        self.log_weights = 0.0
        if self.moments is not None:
            self.weight_mean = self.moments.weight_sum / self.nobs
            self.log_weights = self.moments.log_weight_sum - self.nobs * float(np.log(self.weight_mean))
        if data.weights is not None:
            top = float(data.weights.max())
            self.weight_mean = top * float((data.weights / top).mean())
            self.weights = data.weights / self.weight_mean
            self.log_weights = float(np.log(self.weights).sum())
        self.precision_loss = 0.0
        self._built: Design | None = None
        super().__init__(data.endog, data.exog, missing="none", hasconst=bool(data.k_constant), prepared=data)
        self._init_keys: list[str] = []

    @property
    def exog(self) -> Any:
        """All columns in the order of ``exog_names``, the intercept among them, (n, k); None where there are no rows.

        Where an intercept was added this is a copy of the columns, with ones before them: made when it is first asked
        for and kept from then on, but not in pickles. Nothing in the package uses it; the columns as they were given
        are ``data.exog``.
        """
        given = self.data.exog
        if given is None or self.data.intercept_name is None:
            return given
        if self._with_intercept is None:
            self._with_intercept = _after_ones(given)
        return self._with_intercept

    @exog.setter
    def exog(self, value: Any) -> None:
        if value is not None and value is not self.data.exog:
            raise ValueError("the columns of a model cannot be replaced: build a new model")
        self._with_intercept = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the copy of the columns."""
        return self.__dict__ | {"_with_intercept": None}

    def _handle_data(self, endog: Any, exog: Any, missing: Any, hasconst: Any, **kwargs: Any) -> ModelData:
        # statsmodels' own handling would copy, look for a constant by SVD, and tie pickles to its formula engine.
        prepared: ModelData = kwargs["prepared"]
        return prepared

    @classmethod
    def from_formula(  # type: ignore[override]
        cls,
        formula: str,
        data: Any,
        *,
        subset: Any = None,
        drop_cols: Any = None,
        missing: str = "drop",
        weights: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Build the model from a formula and a data frame.

        Formulas are formulaic's, whatever engine statsmodels is set to. An intercept is part of a formula unless
        it says ``0 +`` or ``- 1``.

        Parameters
        ----------
        formula : str
            ``"y ~ x1 + bs(x2, df=4) + C(g)"``; names are columns of `data`, or the caller's own functions.
            A formula is evaluated as Python and can run any code: use only formulas you trust.
        data : pandas, polars or pyarrow frame, or dict of arrays
        subset : array-like, optional
            Boolean mask or row labels of the rows to use.
        drop_cols : list of str, optional
            Columns of the design to leave out.
        missing : {"drop", "raise"}
            What to do with rows in which a variable of the formula (or a weight) is missing.
        weights : str or array-like, optional
            Name of a column, or one weight for each row of `data`.
        **kwargs
            The class's other arguments. `unpenalized` also takes the names of terms.

        Raises
        ------
        ValueError
            For bad data, naming the column or row.
        formulaic.errors.FormulaicError
            For a formula that cannot be parsed or names a variable that is not there.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> late = longley["YEAR"] > 1950
        >>> model = BayesRidge.from_formula(
        ...     "TOTEMP ~ GNP + bs(YEAR, df=3)", longley, unpenalized=["GNP"], subset=late
        ... )
        >>> model.nobs, model.exog_names
        (12, ['Intercept', 'GNP', 'bs(YEAR, df=3)[1]', 'bs(YEAR, df=3)[2]', 'bs(YEAR, df=3)[3]'])
        """
        for name in ("intercept", "formula_data"):
            if name in kwargs:
                raise ValueError(f"{name} is not an argument of from_formula: the formula says it ('0 +' for none)")
        call = cls._called("from_formula", locals(), kwargs)
        built = formulas.build(
            formula,
            data,
            subset=subset,
            drop_cols=drop_cols,
            missing=missing,
            weights=weights,
            context=formulas.capture(1),
        )
        model = cls(
            built.endog,
            built.exog,
            intercept=built.spec.has_intercept,
            weights=built.weights,
            missing="raise",
            formula_data=built,
            **(cls._formula_defaults | kwargs),
        )
        model.call = call.using(built.spec.context)
        return model

    @property
    def why_no_rows(self) -> str:
        """The message of what needs rows that are not there."""
        if self.moments is not None:
            return "this fit was made from moments, which hold no rows: fit from rows for what runs over them"
        return "the data of this fit were removed: fit again, or keep the data, for what runs over its rows"

    def _layout(self) -> tuple[IntArray, IntArray, bool]:
        """Unpenalised and penalised columns of exog, and whether an intercept precedes them."""
        data: ModelData = self.data
        constants: dict[int, float] = {}
        if data.k_constant:
            constants = constant_values(data.exog) if self.moments is None else constants_of(self.moments)
        unpenalized = np.array(
            [j for j in data.unpenalized if j == data.const_idx or j not in constants], dtype=np.intp
        )
        rest = np.ones(len(data.exog_columns), dtype=bool)
        rest[data.unpenalized] = False
        penalized = np.flatnonzero(rest)
        return unpenalized, penalized, data.intercept_name is not None

    def _build(self) -> tuple[Design, CrossProducts]:
        """Make the design and take the pass over X."""
        if self.data.exog is None and self.moments is None:
            raise ValueError("the data of this model were removed: build it again to fit")
        data: ModelData = self.data
        unpenalized, penalized, added = self._layout()
        names = [data.exog_columns[j] for j in unpenalized]
        names = ([str(data.intercept_name)] if added else []) + names
        constant = 0 if added else None
        if data.const_idx is not None:
            constant = int(np.flatnonzero(unpenalized == data.const_idx)[0])
        shared: dict[str, Any] = {
            "penalized": penalized,
            "z_names": names,
            "z_constant": constant,
            "standardize": self.standardize,
            "constant_serves": data.const_idx is not None,
        }
        if self.moments is not None:
            design, products, self.precision_loss = design_of_moments(self.moments, unpenalized=unpenalized, **shared)
        else:
            z = np.column_stack(
                [np.ones((self.nobs, int(added))), *(_column(self.data.exog, j) for j in unpenalized)]
            )
            y = self.endog[:, None] if self.endog.ndim == 1 else self.endog
            design, products = build_design(y, self.data.exog, z=z, weights=self.weights, **shared)
        if products.constant.any() and self.standardize and design.block.ones is None:
            flat = [data.exog_columns[j] for j in design.constant]
            raise ValueError(
                f"column(s) {listed(flat)} are constant and the model has no intercept, so that there is no "
                "standard deviation to scale their prior by: name them in `unpenalized`, or use standardize=False"
            )
        self._columns_of_z = unpenalized
        self._intercept_added = added
        self.k_constant = int(design.block.ones is not None)
        self._built = design
        return design, products

    def scatter(self, of_z: FloatArray, of_penalized: FloatArray, design: Design) -> FloatArray:
        """Put coefficients' values (unpenalised, penalised) in the order of ``exog_names``; constants get 0."""
        k = len(self.exog_names)
        out = np.zeros((k, *of_penalized.shape[1:]))
        z_at, at = self.positions(design)
        out[z_at], out[at] = of_z, of_penalized
        return out

    def flat_columns(self, design: Design) -> list[str]:
        """Names of the columns without variation, which the intercept makes superfluous; their coefficient is 0."""
        data: ModelData = self.data
        unused = np.setdiff1d(data.unpenalized, self._columns_of_z)
        return [data.exog_columns[j] for j in np.union1d(design.constant, unused).astype(int)]

    def positions(self, design: Design) -> tuple[IntArray, IntArray]:
        """Positions in ``exog_names`` of the unpenalised and of the penalised coefficients that vary."""
        shift = int(self._intercept_added)
        of_z = self._columns_of_z + shift
        return (np.concatenate([[0], of_z]).astype(np.intp) if shift else of_z), design.columns + shift

    def split_rows(self, rows: AnyArray, design: Design) -> tuple[AnyArray, FloatArray]:
        """Rows of exog as (penalised columns that vary, unpenalised columns with the intercept)."""
        rows = _dense(rows)
        z = rows[:, self._columns_of_z].astype(np.float64)
        if self._intercept_added:
            z = np.column_stack([np.ones(rows.shape[0]), z])
        return rows[:, design.columns], z

    def new_rows(self, exog: Any, transform: bool) -> tuple[AnyArray, pd.Index]:
        """New data as columns of exog, and their row labels; the fit's own rows for None."""
        data: ModelData = self.data
        if exog is None:
            if self.data.exog is None:
                raise ValueError(f"{self.why_no_rows}; or pass exog")
            return self.data.exog, data.row_labels
        if self.formula_spec is not None and transform:
            frame, labels = formulas.transform(self.formula_spec, exog, formulas.capture(2))
            rows = frame.to_numpy(dtype=np.float64)
        else:
            rows, labels = self._rows_of_exog(exog, data.exog_columns)
        refuse_infinite(rows, data.exog_columns)
        return rows, labels

    def _rows_of_exog(self, exog: Any, names: list[str]) -> tuple[AnyArray, pd.Index]:
        exog = to_pandas(exog, "exog")
        if isinstance(exog, pd.Series) and sorted(map(str, exog.index)) == sorted(names):
            exog = exog.to_frame().T.infer_objects()  # one row, whose labels are those of the columns
        if isinstance(exog, pd.DataFrame):
            return self._frame_rows(exog, names)
        width = len(names)
        own: Any = exog.index if isinstance(exog, pd.Series) and len(exog) != width else None
        rows = as_exog(exog)
        if np.ndim(exog) == 1 and rows.shape[0] == width and width != 1:
            rows = rows.T
        if self._intercept_added and rows.shape[1] == width + 1 and _is_one(rows):
            rows = rows[:, 1:]  # columns as in ``exog``, the intercept first
        if rows.shape[1] != width:
            raise ValueError(
                f"exog has {rows.shape[1]} columns for {width} of the fit (without the intercept that was added)"
                if self._intercept_added
                else f"exog has {rows.shape[1]} columns for {width} of the fit"
            )
        return rows, pd.RangeIndex(rows.shape[0]) if own is None else own

    def _frame_rows(self, exog: pd.DataFrame, names: list[str]) -> tuple[AnyArray, pd.Index]:
        given = [str(c) for c in exog.columns]
        if set(names) <= set(given):
            position = {name: i for i, name in enumerate(given)}
            if len(position) < len(given):
                count = Counter(given)
                twice = [name for name in names if count[name] > 1]
                if twice:
                    raise ValueError(
                        f"duplicate column name(s) {listed(twice)} in exog: give each column a name of its own"
                    )
            return as_exog(exog.iloc[:, [position[name] for name in names]]), exog.index
        generic = not isinstance(self.data.orig_exog, pd.DataFrame)
        if generic and len(given) == len(names):
            return as_exog(exog), exog.index
        known = set(given)
        absent = [name for name in names if name not in known]
        raise ValueError(f"exog lacks the column(s) {listed(absent)} of the fit")

    def noise_factors(self, m: int, weights: Any, *, own: bool) -> FloatArray:
        """Noise variance of new observations relative to sigma2: 1/w, the weights of the fit having mean 1."""
        if weights is not None:
            w = as_weights(weights, m)
            check_weights(w, pd.RangeIndex(m))
            return self.weight_mean / w
        if own and self.weights is not None:
            return 1.0 / self.weights
        return np.ones(m)

    def predict(self, params: Any, exog: Any = None) -> FloatArray:  # type: ignore[override]
        """Linear predictor at rows of exog for given coefficients, (m,) or (m, q).

        The columns are those of the fit, with or without the intercept that was added.
        """
        rows = self.data.exog if exog is None else exog
        if rows is None:
            raise ValueError(self.why_no_rows)
        b = np.asarray(params, dtype=np.float64)
        if exog is not None and not sparse.issparse(rows):
            rows = np.asarray(rows)
        if self.data.intercept_name is not None and rows.shape[1] == len(b) and _is_one(rows):
            rows = rows[:, 1:]
        shift = int(self.data.intercept_name is not None)
        base = b[0] if shift else 0.0
        slopes = b[shift:]
        if sparse.issparse(rows):
            return np.asarray(rows @ slopes) + base
        if rows.dtype == np.float64:
            return rows @ slopes + base
        step = block_size(rows.shape[1])
        pieces = [rows[i : i + step].astype(np.float64) @ slopes + base for i in range(0, max(len(rows), 1), step)]
        return np.concatenate(pieces)

    def forget_rows(self, row_space: bool = True) -> None:
        """Drop every array over rows, every label of a row, and unless `row_space` the moments too."""
        if self.moments is not None and row_space:
            return
        self.moments = None
        data: ModelData = self.data
        for holder in (self, data):
            holder.endog = holder.exog = None
        self.weights = data.weights = None
        # Names, and not a frame without rows: categories and levels of labels would stay in it.
        named = isinstance(data.orig_exog, pd.DataFrame)
        data.orig_exog = pd.DataFrame(columns=data.exog_columns) if named else None
        data.orig_endog = None
        data.row_labels = pd.RangeIndex(0)
        if self.formula_spec is not None:
            self.formula_spec = self.formula_spec.without_rows((self.nobs, self.nobs + data.n_dropped))
        self._built = None


def _after_ones(columns: Any) -> Any:
    """Columns with ones before them, in a type of floats."""
    n = columns.shape[0]
    if sparse.issparse(columns):
        return sparse.hstack([sparse.csc_matrix(np.ones((n, 1))), columns], format="csc")
    out = np.empty((n, columns.shape[1] + 1), dtype=columns.dtype if columns.dtype.kind == "f" else np.float64)
    out[:, 0], out[:, 1:] = 1.0, columns
    return out


def _is_one(rows: Any) -> bool:
    """Whether the first column is one of ones."""
    first = rows[:, [0]].toarray() if sparse.issparse(rows) else rows[:, 0]
    return bool((first == 1).all())


def _dense(rows: Any) -> AnyArray:
    return rows.toarray() if sparse.issparse(rows) else rows


def _column(exog: Any, j: int) -> FloatArray:
    column = exog[:, [j]].toarray()[:, 0] if sparse.issparse(exog) else exog[:, j]
    return np.asarray(column, dtype=np.float64)
