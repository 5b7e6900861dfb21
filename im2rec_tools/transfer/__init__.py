"""Transfer of files from and to other machines: HTTP servers and object stores."""
