"""What the data commands do; im2rec_tools.declarations has their options."""
