"""How a program on a host is reached: pipes here, SSH elsewhere."""
