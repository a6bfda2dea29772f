"""The plan of a topology's picture: what is drawn, what is alike and drawn once, and where everything stands."""
