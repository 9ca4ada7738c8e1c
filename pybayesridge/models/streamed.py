"""Construction of models from rows that are not a matrix in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from pybayesridge._types import ArrowLike, DaskArrayLike, DaskFrameLike, Levels, ParquetLike
from pybayesridge.families.registry import DEFAULT, FAMILIES, class_of, named
from pybayesridge.formula.late import build as formulas
from pybayesridge.models.options import ModelOptions
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments, as_moments
from pybayesridge.recipes import Call, call_of

if TYPE_CHECKING:
    from pybayesridge.formula.names import Context
    from pybayesridge.formula.spec import FormulaData
    from pybayesridge.streams.passes import BatchSource

Model = TypeVar("Model", bound="StreamedModel")

OF_BATCHES = ("weights", "levels", "drop_cols", "missing", "batch_size", "progress")
"""Arguments of constructors that say how rows are read in batches."""


class StreamedModel:
    """Constructors of both models that require only sufficient statistics.

    Attributes
    ----------
    call : Call
        How the model was made.
    missing : {"drop", "raise"}
        What is done about rows with missing values.
    """

    call: Call
    missing: str = "drop"
    _formula_defaults: ClassVar[ModelOptions] = {}

    @classmethod
    def _options_of_bands(cls, built: FormulaData, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of the constructor that follow from the terms of a formula with a variance of their own.

        `given` are the user's. This one refuses such terms.
        """
        raise ValueError(
            f"the formula has {built.spec.bands[0].of_term}, whose variance is a parameter of its own, which "
            f"{cls.__name__} does not have: use BayesRidge"
        )

    @classmethod
    def _called(cls, entry: str, given: Mapping[str, object], rest: Mapping[str, object]) -> Call:
        """The call of a constructor with the class's other arguments in `rest`."""
        defaults = cls._formula_defaults if given.get("formula") is not None else {}
        return call_of(
            f"{cls.__name__}.{entry}", getattr(cls, entry), {**rest, **given}, rest=cls.__init__, defaults=defaults
        )

    @classmethod
    def from_moments(cls, moments: Moments, **kwargs: Unpack[ModelOptions]) -> Self:
        """Build the model from sufficient statistics instead of rows.

        The fit equals that from the rows. Quantities that require rows (fitted values, residuals, leave-one-out)
        raise a ValueError.

        Parameters
        ----------
        moments : Moments
            Of all columns, the unpenalised ones among them, and the response(s).
        **kwargs
            The class's other arguments, `bands` among them. Weights are part of the moments.

        Raises
        ------
        ValueError
            If the unpenalised columns are, to the accuracy of moments, linearly dependent (when it is fitted), for
            moments that no rows can have, or for an argument that needs rows.
        """
        call = cls._called("from_moments", locals(), kwargs)
        _refuse_family(cls, kwargs, "from_moments")
        _refuse(kwargs, ("endog", "exog", "weights", "missing", "formula_data"), "from_moments")
        return _build(cls, as_moments(moments), call.after("moments", moments.call), kwargs)

    @classmethod
    def from_parquet(
        cls,
        source: ParquetLike,
        formula: str,
        *,
        weights: str | None = None,
        levels: Levels | None = None,
        drop_cols: Iterable[str] | None = None,
        missing: str = "drop",
        batch_size: int = 65_536,
        progress: bool | None = None,
        **kwargs: Unpack[ModelOptions],
    ) -> Self:
        """Build the model from Parquet files and a formula, reading a batch of rows at a time.

        Memory does not grow with the number of rows. The fit equals that of :meth:`from_formula` on the same rows;
        quantities that require rows (fitted values, residuals, leave-one-out) raise a ValueError.

        Parameters
        ----------
        source : path, list of paths or pyarrow.dataset.Dataset
            A file, a folder of files (folders named ``key=value`` give a column), or a dataset
            (``dataset.filter(...)`` chooses rows). Files are read a row group at a time; of a dataset, pyarrow may
            read up to a gigabyte ahead.
        formula : str
            As for :meth:`from_formula`. Levels of factors, and the means and standard deviations of ``scale`` and
            ``center``, are those of all complete rows. One pass is enough where each term is a product of columns,
            factors and expressions of columns of numbers, such as ``log(z)*g``, or of factors and one ``scale(x)``
            or ``center(x)``. For any other term, such as ``exp(scale(x))`` or ``scale(x):z``, a first pass finds
            levels and means. Splines need their knots and bounds declared as numbers,
            ``bs(x, knots=[1, 2], lower_bound=0, upper_bound=3)``, and ``poly`` needs ``raw=True``. Any
            other expression must give each row a value that depends on that row alone; that is checked. Groups,
            smooth curves of columns and bands, ``(1 | g)``, ``s(x)`` and ``band(a, b, name="c")``, take two passes;
            columns of groups are never dense.
        weights : str, optional
            Column of precision weights.
        levels : dict, optional
            Levels of factors by column, the baseline first (those of a column of numbers are always in ascending
            order). Where all are declared and nothing is scaled, one pass is enough for any formula.
        drop_cols : list of str, optional
            Columns of the design to leave out.
        missing : {"drop", "raise"}
            Treatment of rows in which a variable of the formula (or a weight) is missing.
        batch_size : int
            Most rows in a batch.
        progress : bool, optional
            Show a bar on stderr; by default only where that is a terminal.
        **kwargs
            The class's other arguments. `unpenalized` also takes the names of terms.

        Raises
        ------
        ValueError
            For bad data; for a level that is not among those declared; for a transform that a stream cannot
            compute: the message says what to declare.
        ImportError
            Without pyarrow, which the extra ``stream`` brings.
        """
        from pybayesridge.streams.parquet import ParquetSource

        given, context = locals(), formulas.capture(1)
        return _from_batches(cls, "from_parquet", lambda: ParquetSource(source), given, context)

    @classmethod
    def from_arrow(
        cls,
        data: ArrowLike,
        formula: str,
        *,
        weights: str | None = None,
        levels: Levels | None = None,
        drop_cols: Iterable[str] | None = None,
        missing: str = "drop",
        batch_size: int = 65_536,
        progress: bool | None = None,
        **kwargs: Unpack[ModelOptions],
    ) -> Self:
        """Build the model from an Arrow stream and a formula, reading a batch of rows at a time.

        Memory does not grow with the number of rows beyond what the object itself holds. The fit equals that of
        :meth:`from_formula` on the same rows; quantities that require rows (fitted values, residuals, leave-one-out)
        raise a ValueError.

        Parameters
        ----------
        data : object with the Arrow stream protocol, or function
            A table or reader of pyarrow, a frame of polars (also a lazy one, read in batches by ``collect_batches``),
            a relation of DuckDB, a result of an ADBC driver: any object with the method ``__arrow_c_stream__``. A
            function without arguments is called for each pass and returns such an object.
        formula : str
            With the limits of :meth:`from_parquet`. A formula that requires two passes is refused if `data` can be
            read only once, as a ``RecordBatchReader`` can: pass a table, or a function that returns a new reader.
            Levels of dictionaries are in the order of the dictionary, those of text and of the type ``Categorical``
            of polars are sorted.
        weights : str, optional
            Column of precision weights.
        levels, drop_cols, missing
            As for :meth:`from_parquet`.
        batch_size : int
            Rows in a batch, whatever the size of the batches of the stream.
        progress : bool, optional
            Show a bar on stderr; by default only where that is a terminal.
        **kwargs
            The class's other arguments. `unpenalized` also takes the names of terms.

        Raises
        ------
        ValueError
            As for :meth:`from_parquet`; for an object that can be read only once where two passes are required, or
            whose second pass has another number of rows than the first.
        ImportError
            Without pyarrow, which the extra ``stream`` brings.
        """
        from pybayesridge.streams.arrow import ArrowSource

        given, context = locals(), formulas.capture(1)
        return _from_batches(cls, "from_arrow", lambda: ArrowSource(data), given, context)

    @classmethod
    def from_dask(
        cls,
        data: DaskFrameLike | DaskArrayLike,
        formula: str | None = None,
        *,
        endog: DaskArrayLike | None = None,
        weights: str | DaskArrayLike | None = None,
        levels: Levels | None = None,
        drop_cols: Iterable[str] | None = None,
        missing: str | None = None,
        **kwargs: Unpack[ModelOptions],
    ) -> Self:
        """Build the model from a Dask DataFrame and a formula, or from Dask arrays.

        Moments of partitions are merged in a tree on the scheduler that is active (that of a ``distributed.Client``,
        if there is one); only their sum is returned, and the model is fitted here. If a worker fails, Dask repeats
        its tasks elsewhere. The fit equals that of the same rows in memory; quantities that require rows (fitted
        values, residuals, leave-one-out) raise a ValueError.

        Parameters
        ----------
        data : Dask DataFrame or (n, p) Dask array
            With a formula a frame, else the columns of the design.
        formula : str, optional
            With the limits and the first pass of :meth:`from_parquet`.
        endog : (n,) or (n, q) Dask array, with arrays only
            The response(s).
        weights : str, or (n,) Dask array
            Precision weights: with a formula the name of a column.
        levels, drop_cols : optional, with a formula only
            As for :meth:`from_parquet`.
        missing : {"drop", "raise"}, optional
            Treatment of rows with missing values: "drop" by default with a formula, "raise" with
            arrays.
        **kwargs
            The class's other arguments.

        Raises
        ------
        ValueError
            For bad data, naming the partition, or a transform that cannot be computed partition by partition.
        ImportError
            Without Dask, which the extra ``dask`` brings.
        """
        from pybayesridge.streams.dask import moments_of_arrays, moments_of_frame

        call = cls._called("from_dask", locals(), kwargs)
        _refuse_family(cls, kwargs, "from_dask")
        if missing not in (None, "drop", "raise"):
            raise ValueError(f"missing must be 'drop' or 'raise', not {missing!r}")
        if formula is None:
            if endog is None or hasattr(data, "columns"):
                raise ValueError("from_dask requires a DataFrame and a formula, or an array of columns and endog")
            _refuse(
                {k: v for k, v in (("levels", levels), ("drop_cols", drop_cols)) if v is not None},
                ("levels", "drop_cols"),
                "from_dask with arrays",
            )
            moments = moments_of_arrays(endog, data, weights, missing=missing or "raise")
            return _build(cls, moments, call, kwargs)
        _refuse(kwargs, ("intercept", "formula_data", "subset"), "from_dask with a formula")
        if endog is not None or not hasattr(data, "columns"):
            raise ValueError("with a formula data is a Dask DataFrame, and the response one of its columns")
        if weights is not None and not isinstance(weights, str):
            raise ValueError("with a formula weights must be the name of a column")
        moments, built = moments_of_frame(
            data,
            formula,
            weights=weights,
            levels=levels,
            drop_cols=drop_cols,
            missing=missing or "drop",
            context=formulas.capture(1),
        )
        return _from_formula(cls, moments, built, missing or "drop", call, kwargs)


def _from_batches(
    cls: type[Model], entry: str, opened: Callable[[], BatchSource], given: Mapping[str, Any], context: Context | None
) -> Model:
    """The model of a formula on rows that are read in batches.

    Parameters
    ----------
    cls : type
    entry : str
        The constructor that was called.
    opened : callable
        Opens the rows.
    given : mapping
        The constructor's arguments by name.
    context : Context or None
        Names that are visible where it was called.
    """
    from pybayesridge.streams.passes import moments_of_source

    kwargs = given["kwargs"]
    call = cls._called(entry, given, kwargs)
    _refuse_family(cls, kwargs, entry)
    _refuse(kwargs, ("intercept", "formula_data", "subset"), entry)
    options = {name: given[name] for name in OF_BATCHES}
    moments, built = moments_of_source(opened, given["formula"], context=context, **options)
    return _from_formula(cls, moments, built, given["missing"], call, kwargs)


def _from_formula(
    cls: type[Model],
    moments: Moments | BlockMoments,
    built: FormulaData,
    missing: str,
    call: Call,
    kwargs: Mapping[str, object],
) -> Model:
    own = {"intercept": built.spec.has_intercept, "formula_data": built}
    options = {**own, **cls._formula_defaults, **kwargs}
    if built.spec.bands:
        options |= cls._options_of_bands(built, options)
    model = _build(cls, moments, call.using(built.spec.context), options)
    model.missing = missing
    return model


def _build(cls: type[Model], moments: Moments | BlockMoments, call: Call, kwargs: Mapping[str, object]) -> Model:
    made: Callable[..., Model] = cls
    model = made(None, moments, **kwargs)
    model.call = call
    return model


def _refuse(kwargs: Mapping[str, object], names: Iterable[str], where: str) -> None:
    for name in names:
        if name in kwargs:
            raise ValueError(f"{name} is not an argument of {where}")


def _refuse_family(cls: type[StreamedModel], kwargs: Mapping[str, object], where: str) -> None:
    """Refuse a family whose likelihood needs the rows, before any is read."""
    family, _ = named(kwargs.get("family", DEFAULT))
    found = class_of(family)
    if found is not None and found.needs_rows:
        enough = " or ".join(f"family={name!r}" for name, each in FAMILIES.items() if not each.needs_rows)
        raise ValueError(
            f"{where} is for {enough}: sufficient statistics do not determine the likelihood of "
            f"family={family!r}; fit from rows in memory"
        )
