"""The arguments of the command line."""

from __future__ import annotations

import argparse
import codecs
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

DATA = "CSV (.csv, compressed too), TSV (.tsv, .tab) or Parquet (.parquet) by the file's name; - is CSV from stdin"

TAB = ("\\t", "tab")
"""How a tab is written where shells make it hard."""

PER_FAMILY: Mapping[str, dict[str, Any]] = {
    "event": {
        "metavar": "LEVEL",
        "help": "value of the response whose probability is modelled, for --family {either} (default: the second)",
    },
    "categories": {
        "metavar": "LEVEL,...",
        "type": lambda text: [level.strip() for level in text.split(",")],
        "help": "categories of the response from the lowest to the highest, for --family {either} (needed for text)",
    },
    "trials": {"metavar": "COLUMN", "help": "column of numbers of trials, for --family {either}"},
    "exposure": {"metavar": "COLUMN", "help": "column of exposures, for --family {either}"},
    "dispersion": {
        "metavar": "ALPHA",
        "type": float,
        "help": "the dispersion, for --family {either} (default: integrated out)",
    },
    "df": {
        "metavar": "DF",
        "type": float,
        "help": "degrees of freedom of the noise, for --family {either} (default: averaged over)",
    },
}
"""Arguments that only some families take, which the help names; `--link` is not among them."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose arguments are added when it parses: their help lists methods.

    Parameters
    ----------
    *args, **kwargs
        As for ``argparse.ArgumentParser``.
    arguments : callable, optional
        Adds the arguments to the parser that it takes.
    """

    def __init__(self, *args: Any, arguments: Callable[[argparse.ArgumentParser], None] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._arguments = arguments

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the arguments if they are not there yet, and parse."""
        add, self._arguments = self._arguments, None
        if add is not None:
            add(self)
        return super().parse_known_args(args, namespace)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help at once: argparse hides that it could not be written."""
        if file is sys.stdout:
            file.write(message)
            file.flush()
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 after one line on stderr."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser; each command sets ``run``, which takes the parsed arguments."""
    from pybayesridge._version import __version__

    parser = Parser(prog="pybayesridge", description="Bayesian linear models for people who read regression tables.")
    parser.add_argument("--version", action="version", version=f"pybayesridge {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{demo,ridge,spikeslab,predict}")
    demo = commands.add_parser("demo", help="fit Longley's data and print the summaries")
    demo.add_argument(
        "--report",
        metavar="FILE",
        help="write an HTML report of each model: FILE with -ridge and -spikeslab",
    )
    demo.set_defaults(run=_demo)
    for name, line, description, arguments in (
        ("ridge", "Bayesian ridge regression", _RIDGE, _ridge),
        ("spikeslab", "variable selection, spike and slab", _SPIKE_SLAB, _spike_slab),
        ("predict", "predictions of a saved fit for new data", _PREDICT, _predict),
    ):
        commands.add_parser(name, help=line, description=description, arguments=arguments)
    return parser


_RIDGE = "Ridge regression with the penalty estimated from its posterior. Prints the summary."
_SPIKE_SLAB = "Variable selection with spike-and-slab priors. Prints the summary."
_PREDICT = (
    "Predictions for new data, a row for each row of the data: mean, its standard error, the credible interval of "
    "the mean, the predictive interval of an observation. A row in which a variable is missing gets empty "
    "fields; for a group, as in (1 | g), that is missing or new see --new-levels."
)


def _ridge(parser: argparse.ArgumentParser) -> None:
    _fitting(parser)
    _response(parser, "BayesRidge")
    parser.add_argument(
        "--prior",
        type=_prior,
        metavar="PRIOR",
        help="prior of tau2: r2 (the share of variance that the columns explain is Beta(1/2, 1/2); default), "
        "half-cauchy (of tau), or A,B or A,B,SCALE: tau2 / SCALE is beta-prime(A, B)",
    )
    parser.add_argument(
        "--bands",
        type=_band,
        nargs="+",
        action="extend",
        metavar="NAME=TERM,TERM",
        help="columns or terms that have a penalty of their own, for numbers as responses; those that are in none "
        "are one more band",
    )
    parser.add_argument("--sigma2", type=_number, metavar="VARIANCE", help="the noise variance, if it is known")
    _options(parser, "BayesRidge")
    parser.set_defaults(run=_fit)


def _in_words(methods: Mapping[str, Any], *default: str) -> str:
    """Description of each method, for the help; the last of the names in `default` that is one of them is marked."""
    marked = next((name for name in reversed(default) if name in methods), None)
    return "; ".join(f"{name}: {entry.help}{' (default)' * (name == marked)}" for name, entry in methods.items())


def _options(parser: argparse.ArgumentParser, model: str) -> None:
    """The options of a model's methods."""
    from pybayesridge.models.methods import OPTIONS

    kinds: dict[type, Callable[[str], Any]] = {float: _number, int: int}
    for name, option in OPTIONS[model].items():
        if option.help:
            kind = kinds[option.kind] if option.choices is None else str
            parser.add_argument(
                f"--{name}", type=kind, choices=option.choices, metavar=option.metavar, help=option.help
            )


def _spike_slab(parser: argparse.ArgumentParser) -> None:
    _fitting(parser)
    _response(parser, "SpikeSlab")
    parser.add_argument(
        "--by-column",
        action="store_true",
        help="select the columns of factors and splines individually, not as whole terms",
    )
    parser.add_argument("--prior-inclusion", type=_number, metavar="P", help="prior inclusion probability")
    parser.add_argument(
        "--slab-var", type=_number, metavar="VARIANCE", help="prior variance of included coefficients"
    )
    parser.add_argument("--noise-var", type=_number, metavar="VARIANCE", help="noise variance")
    parser.add_argument(
        "--expected-size",
        type=_number,
        metavar="COLUMNS",
        help="number of columns or terms expected to be included at the prior median of the inclusion probability, "
        "if --prior-inclusion is not given (default: 1)",
    )
    _options(parser, "SpikeSlab")
    parser.set_defaults(run=_fit)


def _response(parser: argparse.ArgumentParser, model: str) -> None:
    """Arguments about the response, and the methods for it."""
    from pybayesridge.families.registry import FAMILIES
    from pybayesridge.models.methods import lanes_of

    lanes = lanes_of(model)
    banded = next(iter(lanes_of(model, bands=True).values()), None)
    parser.add_argument(
        "--family",
        choices=tuple(lanes),
        default=next(iter(lanes)),
        help="distribution of the response: "
        + "; ".join(f"{family} for {FAMILIES[family].responses}" for family in lanes),
    )
    links = {family: FAMILIES[family].links for family in lanes if "link" in FAMILIES[family].takes}
    several = [family for family, found in links.items() if len(found) > 1]
    parser.add_argument(
        "--link",
        choices=tuple(dict.fromkeys(link for found in links.values() for link in found)),
        help=f"link function, for --family {' or '.join(several)} (default: logit)",
    )
    for name, options in PER_FAMILY.items():
        takers = " or ".join(family for family in lanes if name in FAMILIES[family].takes)
        if takers:
            parser.add_argument(f"--{name}", **{**options, "help": options["help"].format(either=takers)})
    words = [_in_words(lane.names, lane.method(lane.default, 0, 0).name, lane.default) for lane in lanes.values()]
    others = "".join(
        f". With --family {family}: {text}" for family, text in zip(list(lanes)[1:], words[1:], strict=True)
    )
    if banded:
        others += f". With --bands: {_in_words(banded.methods, banded.default)}"
    names = [name for lane in (*lanes.values(), *([banded] if banded else [])) for name in lane.names]
    parser.add_argument(
        "--method",
        choices=list(dict.fromkeys(names)),
        help=words[0] + others,
    )


def _fitting(parser: argparse.ArgumentParser) -> None:
    """Arguments of both models."""
    parser.add_argument(
        "formula", metavar="FORMULA", help="'y ~ x1 + bs(x2, df=4) + C(g)'; 'y ~ .' takes all columns"
    )
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument(
        "--weights",
        metavar="COLUMN",
        help="column of precision weights (other families than gaussian: frequency weights)",
    )
    parser.add_argument(
        "--unpenalized",
        action="append",
        default=[],
        metavar="NAME",
        help="column or term with a flat prior; may be given several times",
    )
    parser.add_argument(
        "--subset",
        metavar="CONDITION",
        help="rows to use, such as 'age > 30 and sex == \"f\"': columns (in `backticks` where a name has spaces), "
        "numbers, quoted text, arithmetic, comparisons, 'in' lists, and, or, not",
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="evaluate any Python code in FORMULA; without this only columns, arithmetic, comparisons, transforms of "
        "the formula language and NumPy's functions are accepted. Such code can do anything you can: use this only "
        "for formulas you trust",
    )
    parser.add_argument(
        "--missing",
        choices=("drop", "raise"),
        default="drop",
        help="rows with missing values: omitted and counted in the notes (default), or an error",
    )
    parser.add_argument(
        "--own-scale",
        action="store_true",
        help="put the prior on the columns in their own units, not per standard deviation",
    )
    parser.add_argument("--save", metavar="FILE", help="save the fit, without the rows of the data, for predict")
    parser.add_argument("--report", metavar="FILE", help="write a self-contained HTML report")
    parser.add_argument(
        "--checks",
        action="store_true",
        help="print the leave-one-out predictive score too, and compare the response with replicated responses",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the summary")
    _common(parser)


def _predict(parser: argparse.ArgumentParser) -> None:
    from pybayesridge.families.registry import those_with

    parser.add_argument(
        "model",
        metavar="MODEL",
        help="file written by --save",
    )
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file to write: .csv, .tsv, .parquet or .json by its name (default: CSV to stdout)",
    )
    parser.add_argument(
        "--weights", metavar="COLUMN", help="column of precision weights, in the units of the weights of the fit"
    )
    parser.add_argument(
        "--exposure",
        metavar="COLUMN",
        help=f"column of exposures, of a fit with --family {' or '.join(those_with('exposure'))} (default: 1 each)",
    )
    parser.add_argument(
        "--trials",
        metavar="COLUMN",
        help="column of numbers of trials, for prediction intervals of new numbers of successes, of a fit with "
        f"--family {' or '.join(those_with('trials'))}",
    )
    parser.add_argument(
        "--new-levels",
        choices=("sample", "zero"),
        help="the effect of a group, as in (1 | g), that is missing or new: sample: a draw from the population of "
        "groups (default); zero: that of a group in the middle",
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="read a MODEL that can run Python code: one whose formula has more than columns, arithmetic, "
        "comparisons, transforms of the formula language and NumPy's functions, or a pickle. Such code can do "
        "anything you can: use this only for files you trust",
    )
    _common(parser)
    parser.set_defaults(run=_predictions)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--alpha", type=_alpha, default=0.05, help="1 - probability of intervals (default: 0.05)")
    parser.add_argument(
        "--na", action="append", default=[], metavar="TEXT", help="text that means missing, in addition to the usual"
    )
    parser.add_argument(
        "--sep",
        type=_separator,
        metavar="CHARACTER",
        help="field separator, such as ';' or tab (default: by DATA's name)",
    )
    parser.add_argument("--decimal", choices=(".", ","), help="decimal sign of text files (default: a point)")
    parser.add_argument(
        "--encoding", type=_encoding, metavar="NAME", help="encoding of text files, such as latin-1 (default: UTF-8)"
    )
    parser.add_argument("--quiet", action="store_true", help="no summary and no progress; warnings and errors remain")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _separator(text: str) -> str:
    if text in TAB:
        return "\t"
    if len(text) != 1 or text in '"\n\r':
        raise argparse.ArgumentTypeError(f"{text!r} is not a single character, such as ';' or tab")
    return text


def _encoding(text: str) -> str:
    try:
        "".encode(text)
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding; try utf-8, latin-1, cp1252 or utf-16"
        ) from None


def _band(text: str) -> tuple[str, list[str]]:
    """A name and the terms that follow it, cut at commas outside parentheses."""
    name, equals, terms = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, =, and terms with commas between them")
    members, depth = [""], 0
    for letter in terms:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            members.append("")
        else:
            members[-1] += letter
    return name.strip(), [member.strip() for member in members if member.strip()]


def _prior(text: str) -> str | tuple[float, ...]:
    from pybayesridge.ridge.prior import NAMED

    if text in NAMED:
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        what = f"{', '.join(NAMED)}, A,B or A,B,SCALE"
        raise argparse.ArgumentTypeError(f"{text!r} is not a prior: give {what}") from None


def _alpha(text: str) -> float:
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} does not lie between 0 and 1: 0.05 gives 95 % intervals")
    return value


def _demo(arguments: argparse.Namespace) -> None:
    from pybayesridge.cli.demo import demo

    print(demo(arguments.report))


def _fit(arguments: argparse.Namespace) -> None:
    from pybayesridge.cli.commands import fit

    fit(arguments)


def _predictions(arguments: argparse.Namespace) -> None:
    from pybayesridge.cli.commands import predict

    predict(arguments)
