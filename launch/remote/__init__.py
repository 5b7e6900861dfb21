"""Programs that mxscale sends to hosts: standard library only, for Python 3.8 and newer.

A program is a module with a `main`; it is sent with the modules that it imports.
"""
