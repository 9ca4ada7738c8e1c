"""The linear regressions of the Statistical Reference Datasets of NIST, with their certified values.

Source: NIST/ITL StRD, Linear Least Squares Regression, https://www.itl.nist.gov/div898/strd/lls/lls.shtml (a work of
the United States government, in the public domain). All numbers are kept as text, as published. `exact` computes the
least-squares solution of a data set in rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

DIGITS = 50
"""Decimal digits of square roots."""


@dataclass(frozen=True, slots=True)
class Certified:
    """Certified values of a data set, in the order of the parameters (the intercept first, where there is one).

    The residual standard deviation and the standard errors have n - k degrees of freedom. Without an intercept R² is
    that of the response not centred.
    """

    params: Sequence[str]
    bse: Sequence[str]
    residual_sd: str
    rsquared: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """One data set.

    Attributes
    ----------
    difficulty : str
        Level of difficulty according to NIST.
    y : list of str
        Response, (n,).
    columns : list of list of str
        Predictors, p of (n,).
    degree : int
        If above 1, the columns are the powers of the only predictor up to it.
    intercept : bool
    certified : Certified
    """

    difficulty: str
    y: list[str]
    columns: list[list[str]]
    degree: int
    intercept: bool
    certified: Certified

    @property
    def k(self) -> int:
        """Number of parameters."""
        return len(self.certified.params)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Response (n,) and columns (n, p) without the intercept, as float64; powers are rounded once."""
        columns = [[float(v) for v in column] for column in self._columns()]
        return np.array([float(v) for v in self.y]), np.array(columns).T

    def design(self) -> list[list[Fraction]]:
        """Rows of the design matrix, with the intercept, without rounding."""
        columns = self._columns()
        if self.intercept:
            columns = [[Fraction(1)] * len(self.y), *columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def _columns(self) -> list[list[Fraction]]:
        columns = [[Fraction(v) for v in column] for column in self.columns]
        if self.degree > 1:
            return [[v**d for v in columns[0]] for d in range(1, self.degree + 1)]
        return columns


@dataclass(frozen=True, slots=True)
class Exact:
    """Least squares without rounding: (k,) coefficients, standard errors, residual standard deviation, R²."""

    params: list[Fraction]
    bse: list[Decimal]
    residual_sd: Decimal
    rsquared: Fraction


def exact(data: Dataset) -> Exact:
    """Least squares by rational arithmetic; square roots to 50 digits."""
    rows, y = data.design(), [Fraction(v) for v in data.y]
    columns = list(zip(*rows, strict=True))
    moments = [[_product(a, b) for b in columns] for a in columns]
    inverse = _inverse(moments)
    with_y = [_product(a, y) for a in columns]
    params = [_product(row, with_y) for row in inverse]
    residuals = [v - _product(row, params) for row, v in zip(rows, y, strict=True)]
    rss = _product(residuals, residuals)
    variance = rss / (len(y) - data.k)
    mean = sum(y) / len(y) if data.intercept else Fraction(0)
    total = sum((v - mean) ** 2 for v in y)
    bse = [_root(variance * inverse[j][j]) for j in range(data.k)]
    return Exact(params, bse, _root(variance), 1 - rss / total)


def _product(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((u * v for u, v in zip(a, b, strict=True)), Fraction(0))


def _root(value: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return (Decimal(value.numerator) / Decimal(value.denominator)).sqrt()


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Inverse of a positive definite matrix by Gauss and Jordan."""
    k = len(matrix)
    work = [[*row, *(Fraction(int(i == j)) for j in range(k))] for i, row in enumerate(matrix)]
    for i in range(k):
        work[i] = [v / work[i][i] for v in work[i]]
        for j in range(k):
            if j != i and work[j][i]:
                work[j] = [v - work[j][i] * pivot for v, pivot in zip(work[j], work[i], strict=True)]
    return [row[k:] for row in work]


def _pairs(text: str) -> tuple[list[str], list[str]]:
    """Response and predictor of text with y and x in turn."""
    words = text.split()
    return words[::2], words[1::2]


NORRIS = """
0.1 0.2  338.8 337.4  118.1 118.2  888.0 884.6  9.2 10.1  228.1 226.5  668.5 666.3  998.5 996.3  449.1 448.6
778.9 777.0  559.2 558.2  0.3 0.4  0.1 0.6  778.1 775.5  668.8 666.9  339.3 338.0  448.9 447.5  10.8 11.6
557.7 556.0  228.3 228.1  998.0 995.8  888.8 887.6  119.6 120.2  0.3 0.3  0.6 0.3  557.6 556.8  339.3 339.1
888.0 887.2  998.5 999.0  778.9 779.0  10.2 11.1  117.6 118.3  228.9 229.2  668.4 669.1  449.2 448.9  0.2 0.5
"""

PONTIUS = """
.11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 1.30822 1.41599 1.52399 1.63194
1.73947 1.84646 1.95392 2.06128 2.16844
.11052 .22018 .32939 .43886 .54798 .65739 .76596 .87474 .98300 1.09150 1.20004 1.30818 1.41613 1.52408 1.63159
1.73965 1.84696 1.95445 2.06177 2.16829
"""

FILIP = """
0.8116 -6.860120914  0.9072 -4.324130045  0.9052 -4.358625055  0.9039 -4.358426747  0.8053 -6.955852379
0.8377 -6.661145254  0.8667 -6.355462942  0.8809 -6.118102026  0.7975 -7.115148017  0.8162 -6.815308569
0.8515 -6.519993057  0.8766 -6.204119983  0.8885 -5.853871964  0.8859 -6.109523091  0.8959 -5.79832982
0.8913 -5.482672118  0.8959 -5.171791386  0.8971 -4.851705903  0.9021 -4.517126416  0.909 -4.143573228
0.9139 -3.709075441  0.9199 -3.499489089  0.8692 -6.300769497  0.8872 -5.953504836  0.89 -5.642065153
0.891 -5.031376979  0.8977 -4.680685696  0.9035 -4.329846955  0.9078 -3.928486195  0.7675 -8.56735134
0.7705 -8.363211311  0.7713 -8.107682739  0.7736 -7.823908741  0.7775 -7.522878745  0.7841 -7.218819279
0.7971 -6.920818754  0.8329 -6.628932138  0.8641 -6.323946875  0.8804 -5.991399828  0.7668 -8.781464495
0.7633 -8.663140179  0.7678 -8.473531488  0.7697 -8.247337057  0.77 -7.971428747  0.7749 -7.676129393
0.7796 -7.352812702  0.7897 -7.072065318  0.8131 -6.774174009  0.8498 -6.478861916  0.8741 -6.159517513
0.8061 -6.835647144  0.846 -6.53165267  0.8751 -6.224098421  0.8856 -5.910094889  0.8919 -5.598599459
0.8934 -5.290645224  0.894 -4.974284616  0.8957 -4.64454848  0.9047 -4.290560426  0.9129 -3.885055584
0.9209 -3.408378962  0.9219 -3.13200249  0.7739 -8.726767166  0.7681 -8.66695597  0.7665 -8.511026475
0.7703 -8.165388579  0.7702 -7.886056648  0.7761 -7.588043762  0.7809 -7.283412422  0.7961 -6.995678626
0.8253 -6.691862621  0.8602 -6.392544977  0.8809 -6.067374056  0.8301 -6.684029655  0.8664 -6.378719832
0.8834 -6.065855188  0.8898 -5.752272167  0.8964 -5.132414673  0.8963 -4.811352704  0.9074 -4.098269308
0.9119 -3.66174277  0.9228 -3.2644011
"""

LONGLEY = """
60323  83.0 234289 2356 1590 107608 1947
61122  88.5 259426 2325 1456 108632 1948
60171  88.2 258054 3682 1616 109773 1949
61187  89.5 284599 3351 1650 110929 1950
63221  96.2 328975 2099 3099 112075 1951
63639  98.1 346999 1932 3594 113270 1952
64989  99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""

WAMPLER_NOISE = (
    759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048,
    -2048, 1838, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 759,
)  # fmt: skip
"""What Wampler3 adds to the polynomial of Wampler1; Wampler4 adds 100 times, Wampler5 10,000 times as much."""


def _longley() -> Dataset:
    rows = [line.split() for line in LONGLEY.split("\n") if line]
    y, *columns = (list(column) for column in zip(*rows, strict=True))
    certified = Certified(
        [
            "-3482258.63459582",
            "15.0618722713733",
            "-0.358191792925910E-01",
            "-2.02022980381683",
            "-1.03322686717359",
            "-0.511041056535807E-01",
            "1829.15146461355",
        ],
        [
            "890420.383607373",
            "84.9149257747669",
            "0.334910077722432E-01",
            "0.488399681651699",
            "0.214274163161675",
            "0.226073200069370",
            "455.478499142212",
        ],
        "304.854073561965",
        "0.995479004577296",
    )
    return Dataset("higher", y, columns, 1, True, certified)


def _wampler(
    factor: int, coefficients: Sequence[str], bse: Sequence[str], residual_sd: str, rsquared: str
) -> Dataset:
    """Polynomial of degree 5 at 0, …, 20, with the noise so many times."""
    x = range(21)
    terms = [Fraction(c) for c in coefficients]
    y = [
        str(Decimal(int(100_000 * (sum(c * v**d for d, c in enumerate(terms)) + factor * e))) / 100_000)
        for v, e in zip(x, WAMPLER_NOISE, strict=True)
    ]
    certified = Certified(list(coefficients), list(bse), residual_sd, rsquared)
    return Dataset("higher", y, [[str(v) for v in x]], 5, True, certified)


ONES = ["1.00000000000000"] * 6
ZEROS = ["0.000000000000000"] * 6
TENTHS = [
    "1.00000000000000",
    "0.100000000000000",
    "0.100000000000000E-01",
    "0.100000000000000E-02",
    "0.100000000000000E-03",
    "0.100000000000000E-04",
]

DATASETS: dict[str, Dataset] = {
    "Norris": Dataset(
        "lower",
        _pairs(NORRIS)[0],
        [_pairs(NORRIS)[1]],
        1,
        True,
        Certified(
            ["-0.262323073774029", "1.00211681802045"],
            ["0.232818234301152", "0.429796848199937E-03"],
            "0.884796396144373",
            "0.999993745883712",
        ),
    ),
    "Pontius": Dataset(
        "lower",
        PONTIUS.split(),
        [[str(150_000 * (i % 20 + 1)) for i in range(40)]],
        2,
        True,
        Certified(
            ["0.673565789473684E-03", "0.732059160401003E-06", "-0.316081871345029E-14"],
            ["0.107938612033077E-03", "0.157817399981659E-09", "0.486652849992036E-16"],
            "0.205177424076185E-03",
            "0.999999900178537",
        ),
    ),
    "NoInt1": Dataset(
        "average",
        [str(v) for v in range(130, 141)],
        [[str(v) for v in range(60, 71)]],
        1,
        False,
        Certified(["2.07438016528926"], ["0.165289256198347E-01"], "3.56753034006338", "0.999365492298663"),
    ),
    "NoInt2": Dataset(
        "average",
        ["3", "4", "4"],
        [["4", "5", "6"]],
        1,
        False,
        Certified(["0.727272727272727"], ["0.420827318078432E-01"], "0.369274472937998", "0.993348115299335"),
    ),
    "Filip": Dataset(
        "higher",
        _pairs(FILIP)[0],
        [_pairs(FILIP)[1]],
        10,
        True,
        Certified(
            [
                "-1467.48961422980",
                "-2772.17959193342",
                "-2316.37108160893",
                "-1127.97394098372",
                "-354.478233703349",
                "-75.1242017393757",
                "-10.8753180355343",
                "-1.06221498588947",
                "-0.670191154593408E-01",
                "-0.246781078275479E-02",
                "-0.402962525080404E-04",
            ],
            [
                "298.084530995537",
                "559.779865474950",
                "466.477572127796",
                "227.204274477751",
                "71.6478660875927",
                "15.2897178747400",
                "2.23691159816033",
                "0.221624321934227",
                "0.142363763154724E-01",
                "0.535617408889821E-03",
                "0.896632837373868E-05",
            ],
            "0.334801051324544E-02",
            "0.996727416185620",
        ),
    ),
    "Longley": _longley(),
    "Wampler1": _wampler(0, ONES, ZEROS, "0.000000000000000", "1.00000000000000"),
    "Wampler2": _wampler(0, TENTHS, ZEROS, "0.000000000000000", "1.00000000000000"),
    "Wampler3": _wampler(
        1,
        ONES,
        [
            "2152.32624678170",
            "2363.55173469681",
            "779.343524331583",
            "101.475507550350",
            "5.64566512170752",
            "0.112324854679312",
        ],
        "2360.14502379268",
        "0.999995559025820",
    ),
    "Wampler4": _wampler(
        100,
        ONES,
        [
            "215232.624678170",
            "236355.173469681",
            "77934.3524331583",
            "10147.5507550350",
            "564.566512170752",
            "11.2324854679312",
        ],
        "236014.502379268",
        "0.957478440825662",
    ),
    "Wampler5": _wampler(
        10_000,
        ONES,
        [
            "21523262.4678170",
            "23635517.3469681",
            "7793435.24331583",
            "1014755.07550350",
            "56456.6512170752",
            "1123.24854679312",
        ],
        "23601450.2379268",
        "0.224668921574940E-02",
    ),
}
