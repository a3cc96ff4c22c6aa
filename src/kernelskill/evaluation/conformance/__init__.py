"""Cheats and honest candidates as data, and the run that holds the judge to them."""
