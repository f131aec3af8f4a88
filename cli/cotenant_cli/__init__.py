"""What a user asks of a cluster: `cotenant why`, `top` and `node`. Reads only: no request but GET is ever sent."""
