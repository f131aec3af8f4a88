"""What a user asks of a cluster: `cotenant why` and `cotenant top`. Reads only: no request but GET is ever sent."""
