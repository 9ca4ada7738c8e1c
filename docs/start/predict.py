new = cars.loc[["Fiat 128", "Duster 360"]].assign(wt=3.0)
ridge.get_prediction(new).summary_frame(alpha=0.1)
