"""Tests of explanations: step budgets, verdicts and the limits of a machine."""
