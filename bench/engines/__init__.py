"""Engines, which run trials: `mxnet` trains; `fake` simulates window times and faults."""
