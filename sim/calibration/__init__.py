"""From measured collectives to numbers of the cost model: what was run, its curve, and what the links then reach."""
