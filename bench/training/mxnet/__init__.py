"""MXNet under the shared training loop: one backend, and modes of its own."""
