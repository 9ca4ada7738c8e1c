"""The common part of both models: data input, construction of designs, coding of new rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray, Names, RowsLike, TableLike
from pybayesridge.checks import check_which
from pybayesridge.data.arrays import refuse_infinite
from pybayesridge.data.prepare import ModelData, of_new_rows, prepare
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.design.from_moments import data_of_names, prepare_moments
from pybayesridge.families.family import Family
from pybayesridge.families.registry import DEFAULT, arguments_of, class_of, earlier, make, named
from pybayesridge.findings import issue
from pybayesridge.formula.late import build as formulas
from pybayesridge.linalg.blocks import dense
from pybayesridge.models.columns import ColumnData, OpenColumns
from pybayesridge.models.methods import OPTIONS, Lane, lanes_of
from pybayesridge.models.new_rows import after_ones, linear_predictor, rows_of_exog
from pybayesridge.models.options import ModelOptions
from pybayesridge.models.sources import BlockData, Layout, MomentData, RowData, Source
from pybayesridge.models.streamed import StreamedModel
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments
from pybayesridge.recipes import Recipe, call_of
from pybayesridge.registry import check_rows
from pybayesridge.text import either, listed

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

    from pybayesridge.formula.spec import FormulaData


class LinearModel(StreamedModel):
    """A linear model with penalised and unpenalised columns, with the attributes of statsmodels' ``Model``.

    Subclasses set ``_max_targets``, the ``_formula_defaults`` of their arguments where a formula has others, and add
    their own arguments.

    Attributes
    ----------
    family : str
        Name of the family of the response.
    prepared : object
        What the way of fitting has made of the design, once for all fits; None before the first one.
    distribution : Family
        The family itself: how the response is coded, and what depends on it.
    per_row : str
        The argument that says how large each row is, such as "trials"; empty where none was given.
    variables : pandas.DataFrame or None
        The columns of the data that a formula reads, at the rows of the fit; None where they are those of the design.
    zero_one : (q,) bool array or None
        Which responses have the values 0 and 1 and no other, where the family is none for those.
    """

    _model: ClassVar[str]

    family: str
    distribution: Family
    prepared: Any = None
    zero_one: BoolArray | None = None
    _built: Design | None = None
    _max_targets: ClassVar[int | None] = 1
    _formula_data: FormulaData | None = None
    variables: pd.DataFrame | None = None
    _with_intercept: AnyArray | csc_matrix | None = None

    def __init__(
        self,
        endog: TableLike | None,
        exog: TableLike | Moments | BlockMoments | OpenColumns,
        *,
        intercept: bool | str,
        weights: ArrayLike | None,
        unpenalized: Names | None,
        standardize: bool,
        missing: str,
        formula_data: FormulaData | None = None,
        extent: ArrayLike | None = None,
    ) -> None:
        if not isinstance(standardize, bool | np.bool_):
            raise ValueError(f"standardize must be True or False, not {standardize!r}")
        if not isinstance(intercept, bool | np.bool_) and not (isinstance(intercept, str) and intercept == "add"):
            raise ValueError(f"intercept must be True, False or 'add', not {intercept!r}")
        options: dict[str, Any] = {
            "intercept": False if self.distribution.has_cuts else intercept,
            "unpenalized": unpenalized,
            "max_targets": self.distribution.max_targets if self._max_targets is None else self._max_targets,
            "terms": None if formula_data is None else formula_data.terms,
            "find_constant": formula_data is None,
        }
        endog, self.distribution = self.distribution.coded(endog)
        if isinstance(exog, Moments):
            data = prepare_moments(exog, **options)
            self.source: Source = MomentData(data, exog)
        elif isinstance(exog, BlockMoments):
            data = data_of_names(exog, **options)
            self.source = BlockData(data, exog)
        elif isinstance(exog, OpenColumns):
            options["standardize"] = bool(standardize)
            data, self.source = ColumnData.read(endog, exog, weights=weights, missing=missing, **options)
        else:
            name = self.distribution.per_row
            data = prepare(endog, exog, weights=weights, extent=extent, extent_name=name, missing=missing, **options)
            data.endog = self.distribution.checked(data.endog, data.extent, data.row_labels)
            self.source = RowData.of(data, self.distribution.row_weights(data.weights, data.extent))
        self.missing = missing
        self.formula_spec = None if formula_data is None else formula_data.spec
        if formula_data is not None:
            data.n_dropped += formula_data.n_dropped
            data.library = formula_data.library
            self.formula = formula_data.spec.formula
            self.variables = formula_data.variables
        self.standardize = bool(standardize)
        self.nobs = self.source.n
        self.one_target = isinstance(data.ynames, str)
        even = self.source.weight_mean == 1 and self.source.log_weights == 0
        self.weighted = data.weights is not None or (self.source.from_moments and not even)
        self.precision_loss = 0.0
        self.data: ModelData = data
        self.endog: Any = data.endog
        self.per_row = "" if data.extent is None else self.distribution.per_row
        self.zero_one = None if data.endog is None else self.distribution.like_yes_no(data.endog)
        self.k_constant = data.k_constant
        self._show_family(vars(self))

    def _take_family(self, family: object, **given: Any) -> None:
        """Keep the family, with those of the given arguments that it takes; refuse the others."""
        self.distribution = make(family, **given)
        self.family = self.distribution.name
        lanes = lanes_of(self._model)
        if self.family not in lanes:
            instead = self.distribution.instead
            refused = f"{self._model} does not have family={self.family!r}, but {either(lanes)}"
            raise ValueError(f"{refused}; {instead}" if instead else refused)
        self._show_family(given)

    def _show_family(self, names: Mapping[str, object]) -> None:
        """Take those attributes of the family that are in `names`: arguments of this model, or there already."""
        vars(self).update({name: value for name, value in self.distribution.attributes.items() if name in names})

    def likelihood(self) -> Any:
        """The likelihood of the rows, of the family's own class; not for a Gaussian response."""
        data: ModelData = self.data
        if data.endog is None:
            raise ValueError(self.why_no_rows)
        return self.distribution.rows(data.endog, data.extent, data.weights)

    @property
    def lanes(self) -> dict[str, Lane]:
        """How such models are fitted, by family: a part of the table of methods."""
        return lanes_of(self._model)

    @property
    def lane(self) -> Lane:
        """How the model is fitted."""
        return self.lanes[self.family]

    @property
    def methods(self) -> Mapping[str, Any]:
        """The methods of ``fit``, by name."""
        return self.lane.methods

    def _fitted(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """Fit by the arguments of `function`, the model's ``fit``, which are all in `given`."""
        lane, options = self.lane, {name: given[name] for name in OPTIONS[self._model]}
        name = lane.default if given["method"] is None else given["method"]
        call = call_of("fit", function, {**given, "method": name}, defaults={"method": None})
        entry = lane.method(name, self.nobs, len(self.data.exog_columns))
        checked = lane.checked(entry, options)
        check_rows(entry, has_rows=not self.source.from_moments)
        results = lane.fit(self, entry, {**checked, "disp": given["disp"]}, Recipe(self.call, call))
        issue(results.findings_on_validity, stacklevel=3)
        if given["disp"]:
            print(lane.told(results))
        return results

    def prepare(self, make: Callable[[Design, CrossProducts], Any]) -> tuple[Design, Any]:
        """The design, and what `make` makes of it and of the cross-products, made once for all fits of the model."""
        if self._built is None or self.prepared is None:
            design, products = self._build()
            self.prepared = make(design, products)
        assert self._built is not None
        return self._built, self.prepared

    def unpenalized_rows(self) -> tuple[FloatArray, tuple[str, ...]]:
        """The unpenalised columns, the intercept among them, and their names."""
        assert isinstance(self.source, RowData)
        return self.source.unpenalized(self._layout), self._layout.z_names

    @property
    def copies(self) -> FloatArray:
        """How many rows each row stands for, (n,): frequency weights, or ones."""
        return self.distribution.copies(self.nobs, self.data.weights)

    @property
    def exog(self) -> AnyArray | csc_matrix | None:
        """All columns in the order of ``exog_names``, the intercept among them, (n, k); None where there are no rows.

        Where an intercept was added this is a copy of the columns, with ones before them: made when it is first asked
        for and kept from then on, but not in pickles. Nothing in the package uses it; the columns as they were given
        are ``data.exog``.
        """
        given = self.data.exog
        if given is None or self.data.intercept_name is None:
            return given
        if self._with_intercept is None:
            self._with_intercept = after_ones(given)
        return self._with_intercept

    @exog.setter
    def exog(self, value: object) -> None:
        if value is not None and value is not self.data.exog:
            raise ValueError("the columns of a model cannot be replaced: build a new model")
        self._with_intercept = None

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes of a model in a file of an earlier version, which had none for the family."""
        out = state if "distribution" in state else state | earlier(state)
        return {"per_row": "trials" if out.get("has_trials") else "", **out, "family": out["distribution"].name}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the copy of the columns."""
        return self.__dict__ | {"_with_intercept": None}

    @property
    def endog_names(self) -> str | list[str]:
        """Name of the response; a list where there are several targets."""
        return self.data.ynames

    @property
    def exog_names(self) -> list[str]:
        """Names of the coefficients, the intercept first if it was added."""
        return self.data.xnames

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: RowsLike,
        *,
        subset: ArrayLike | None = None,
        drop_cols: Sequence[str] | None = None,
        missing: str = "drop",
        weights: str | ArrayLike | None = None,
        **kwargs: Unpack[ModelOptions],
    ) -> Self:
        """Build the model from a formula and a data frame.

        Formulas are formulaic's, whatever engine statsmodels is set to. An intercept is part of a formula unless
        it says ``0 +`` or ``- 1``.

        Parameters
        ----------
        formula : str
            ``"y ~ x1 + bs(x2, df=4) + C(g)"``. A name is a column of `data`, a function of formulas, or else the
            caller's function or value, which predictions use too. It can run any code: use only formulas you trust.
            Terms of a ridge may also have a variance of their own: groups, ``(1 | g)``, ``(x || g)``,
            ``(1 | a/b)``; smooth curves, ``s(x, k=10, by=g)``; and columns put together,
            ``band(a, b, name="genes")``.
        data : pandas, polars or pyarrow frame, or dict of arrays
        subset : array-like, optional
            Boolean mask or row labels of the rows to use.
        drop_cols : list of str, optional
            Columns of the design to leave out.
        missing : {"drop", "raise"}
            Treatment of rows in which a variable of the formula (or a weight) is missing.
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
        kwargs |= arguments_of(kwargs.get("family"), kwargs)  # type: ignore[typeddict-item]
        name, link = named(kwargs.get("family", DEFAULT), kwargs.get("link"))
        if "family" in kwargs:
            kwargs["family"] = name
        if link is not None:
            kwargs["link"] = link
        call = cls._called("from_formula", locals(), kwargs)
        found = class_of(name)
        codes_itself = found is not None and found.codes_itself
        built = formulas.build(
            formula,
            data,
            subset=subset,
            drop_cols=drop_cols,
            missing=missing,
            weights=weights,
            context=formulas.capture(1),
            extent=None if found is None else kwargs.get(found.per_row),
            extent_name="" if found is None else found.per_row,
            binary=codes_itself,
        )
        options: dict[str, Any] = {**cls._formula_defaults, **kwargs}
        if built.bands:
            options |= cls._options_of_bands(built, options)
        if built.extent is not None:
            assert found is not None
            options[found.per_row] = built.extent
        columns: Any = formulas.joined(built.exog, built.bands)
        model = cls(
            built.endog,
            columns,
            intercept=built.spec.has_intercept,
            weights=built.weights,
            missing="raise",
            formula_data=built,
            **options,
        )
        model.missing, model.call = missing, call.using(built.spec.context)
        return model

    @property
    def moments(self) -> Moments | None:
        """The moments that the model was made from, while they are here."""
        return self.source.moments if isinstance(self.source, MomentData) else None

    @property
    def weights(self) -> FloatArray | None:
        """Precision weights over their mean, (n,), where there are such and the rows are here."""
        return self.source.weights

    @property
    def weight_mean(self) -> float:
        """Mean of the precision weights; 1 without."""
        return self.source.weight_mean

    @property
    def log_weights(self) -> float:
        """Sum of the logs of the weights over their mean."""
        return self.source.log_weights

    @property
    def why_no_rows(self) -> str:
        """The message of what needs rows that are not there."""
        return self.source.why_no_rows

    def _build(self) -> tuple[Design, CrossProducts]:
        """Make the design and take the pass over X."""
        data: ModelData = self.data
        layout = Layout.of(data, self.source.constants())
        design, products, loss = self.source.design(
            layout.with_intercept() if self.distribution.has_cuts else layout,
            standardize=self.standardize,
            serves=data.const_idx is not None,
        )
        self.precision_loss = max(loss, design.block.loss)
        if products.constant.any() and self.standardize and design.block.ones is None:
            flat = [data.exog_columns[j] for j in design.constant]
            raise ValueError(
                f"column(s) {listed(flat)} are constant and the model has no intercept, so that there is no "
                "standard deviation to scale their prior by: name them in `unpenalized`, or use standardize=False"
            )
        self._layout = layout
        self.k_constant = int(design.block.ones is not None and not self.distribution.has_cuts)
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
        unused = np.setdiff1d(data.unpenalized, self._layout.unpenalized)
        return [data.exog_columns[j] for j in np.union1d(design.constant, unused).astype(int)]

    def positions(self, design: Design) -> tuple[IntArray, IntArray]:
        """Positions in ``exog_names`` of the unpenalised and of the penalised coefficients that vary."""
        shift = int(self._layout.added)
        of_z = self._layout.unpenalized + shift
        return (np.concatenate([[0], of_z]).astype(np.intp) if shift else of_z), design.columns + shift

    @property
    def keeps_sparse(self) -> bool:
        """Whether sparse rows stay so."""
        return False

    def split_rows(self, rows: AnyArray, design: Design) -> tuple[AnyArray, FloatArray]:
        """Rows of exog as (penalised columns that vary, unpenalised columns with the intercept)."""
        if not (self.keeps_sparse and sparse.issparse(rows)):
            rows = dense(rows)
        z = dense(rows[:, self._layout.unpenalized]).astype(np.float64)
        if self._layout.added:
            z = np.column_stack([np.ones(rows.shape[0]), z])
        return rows[:, design.columns], z

    def new_rows(self, exog: RowsLike | None, transform: bool) -> tuple[AnyArray, pd.Index]:
        """New data as columns of exog, and their row labels; the fit's own rows for None."""
        data: ModelData = self.data
        if exog is None:
            if isinstance(self.source, ColumnData):
                return self.source.stream, data.row_labels  # type: ignore[return-value]
            if self.data.exog is None:
                raise ValueError(f"{self.why_no_rows}; or pass exog")
            return self.data.exog, data.row_labels
        if self.formula_spec is not None and transform:
            rows, labels = formulas.transform(self.formula_spec, exog)
        else:
            rows, labels = rows_of_exog(exog, data)
        refuse_infinite(rows, data.exog_columns)
        return rows, labels

    def noise_factors(
        self, labels: pd.Index, weights: ArrayLike | str | None = None, exog: RowsLike | None = None
    ) -> FloatArray:
        """Noise variance of new observations relative to sigma2: 1/w, the weights of the fit having mean 1.

        Rows with these labels are predicted: those of `exog`, or for None those of the fit.
        """
        if weights is not None:
            out: FloatArray = self.weight_mean / of_new_rows(weights, "weights", exog, labels)
            return out
        if exog is None and self.weights is not None:
            return 1.0 / self.weights
        return np.ones(len(labels))

    def predict(self, params: ArrayLike, exog: TableLike | None = None, which: str = "mean") -> FloatArray:
        """Mean of the response at rows of exog for given coefficients, (m,) or (m, q).

        The columns are those of the fit, with or without the intercept that was added. With ``which="linear"`` the
        linear predictor, which is the mean of a Gaussian response. Counts at new rows are those for an exposure of 1.
        """
        rows = self.data.exog if exog is None else exog
        if rows is None:
            raise ValueError(self.why_no_rows)
        if exog is not None and not sparse.issparse(rows):
            rows = np.asarray(rows)
        linear = linear_predictor(rows, np.asarray(params, dtype=np.float64), self.data)
        if check_which(which) == "linear":
            return linear
        return self.distribution.of_rows(self.distribution.mean(linear), self.data.extent if exog is None else None)

    def forget_rows(self, row_space: bool = True) -> None:
        """Drop every array over rows, every label of a row, and unless `row_space` the moments too."""
        left = self.source.without(row_space=row_space)
        if left is self.source:
            return
        self.source = left
        data: ModelData = self.data
        for holder in (self, data):
            holder.endog = holder.exog = None
        data.weights = data.extent = None
        # Names, and not a frame without rows: categories and levels of labels would stay in it.
        named = isinstance(data.orig_exog, pd.DataFrame)
        data.orig_exog = pd.DataFrame(columns=data.exog_columns) if named else None
        data.orig_endog = None
        data.row_labels = pd.RangeIndex(0)
        if self.formula_spec is not None:
            self.formula_spec = self.formula_spec.without_rows((self.nobs, self.nobs + data.n_dropped))
        self.variables = None
        self._built = self.prepared = None
