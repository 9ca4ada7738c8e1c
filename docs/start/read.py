from pybayesridge.datasets import load_cars

cars = load_cars()
cars.head(3)
