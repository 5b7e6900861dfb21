"""Programs that mxscale sends to hosts: standard library only, Python 3.8+.

A program is a module with a `main`; it is sent with the modules that it imports.
"""
