"""Engines: what runs a trial. `mxnet` trains; `fake` plays window times and faults."""
