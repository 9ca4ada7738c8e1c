"""Data for the examples of the documentation."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd


def load_cars() -> pd.DataFrame:
    """Load data on 32 cars from 1973 and 1974: fuel consumption and ten variables of design and performance.

    Returns
    -------
    DataFrame
        A row for each car, named after it. ``mpg``: miles per US gallon; ``cyl``: cylinders; ``disp``: displacement
        in cubic inches; ``hp``: gross horsepower; ``drat``: ratio of the rear axle; ``wt``: weight in 1,000 pounds;
        ``qsec``: seconds for a quarter of a mile; ``vs``: 1 for a straight engine, 0 for a V-shaped one; ``am``: 1
        for a manual gearbox; ``gear``: forward gears; ``carb``: carburettors.

    Notes
    -----
    The values are facts published in *Motor Trend* (1974), as tabulated by Henderson and Velleman (1981), Building
    multiple regression models interactively, Biometrics 37, 391-411. R has them as ``mtcars``.

    Examples
    --------
    >>> from pybayesridge.datasets import load_cars
    >>> load_cars().loc["Fiat 128", ["mpg", "wt"]].to_dict()
    {'mpg': 32.4, 'wt': 2.2}
    """
    with files("pybayesridge.datasets").joinpath("cars.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, index_col=0)
