"""Data with unpenalised columns projected out, weighted and scaled; the way back."""
