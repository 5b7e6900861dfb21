"""Engines that run trials: `mxnet` trains, `fake` simulates training and faults."""
