"""Arguments that users pass: mypy accepts them."""

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from pybayesridge import BayesRidge, Moments, SpikeSlab

frame = pd.DataFrame({"y": [1.0, 2.0, 4.0], "a": [1.0, 3.0, 2.0]})

BayesRidge([1.0, 2.0, 4.0], [[1.0], [3.0], [2.0]], weights=[1, 1, 2], unpenalized=["x1"])
BayesRidge(frame["y"], frame[["a"]], weights=frame["a"], unpenalized=[0]).fit("fixed", lam=1.0)
BayesRidge(frame[["y"]], np.ones((3, 1))).fit("loocv", grid=np.logspace(-3, 3))
BayesRidge(frame["y"], sp.csc_matrix(np.ones((3, 1))))
BayesRidge(pl.Series([1.0, 2.0, 4.0]), pl.DataFrame({"a": [1.0, 3.0, 2.0]}))
BayesRidge.from_formula("y ~ a", pl.DataFrame({"y": [1.0, 2.0], "a": [1.0, 3.0]}), subset=[True, True])
BayesRidge.from_formula("y ~ a", {"y": [1.0, 2.0, 4.0], "a": [1.0, 3.0, 2.0]}, weights="a").fit().predict(
    {"a": [1.0]}
)
SpikeSlab(frame["y"], frame[["a"]], prior_inclusion={"a": 0.5}, group={"g": ["a"]})
BayesRidge(frame["y"], frame[["a"]]).fit().predict({"a": [1.0]})
first = SpikeSlab(frame["y"], frame[["a"]], prior_inclusion=0.5, group=[["a"]]).fit()
SpikeSlab(frame["y"], frame[["a"]]).fit("ep", start=first)
Moments.from_arrays(frame["y"], frame[["a"]]).subset(columns=["a"]).save("moments.npz")
SpikeSlab(1.0j, None)  # error: Argument 2 to "SpikeSlab" has incompatible type "None"
SpikeSlab.from_moments(Moments.load("m.npz"), unpenalised=["a"])  # error: Unexpected keyword argument "unpenalised"
BayesRidge.from_parquet(3, "y ~ a")  # error: Argument 1 to "from_parquet" has incompatible type "int"
BayesRidge.from_arrow(pl.DataFrame({"y": [1.0], "a": [1.0]}), "y ~ a")
SpikeSlab.from_arrow(lambda: pl.DataFrame({"y": [1.0], "a": [1.0]}), "y ~ a", batch_size=10)
BayesRidge.from_arrow(3, "y ~ a")  # error: Argument 1 to "from_arrow" has incompatible type "int"
