"""How events move: plan, stage worker, operators, sending, inbox, alignment, codec. Pure."""
