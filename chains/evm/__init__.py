"""EVM chains: client (talks), parse (pure), roots (pure), address (pure), source (the port)."""
