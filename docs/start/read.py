import pandas as pd

cars = pd.read_csv("start/cars.csv", index_col=0)
cars.head(3)
