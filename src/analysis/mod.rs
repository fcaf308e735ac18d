//! Reasoning: overhead split, cost model, comparison, advice. Pure functions.
