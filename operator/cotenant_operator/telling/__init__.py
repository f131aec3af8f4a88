"""What users are told: conditions, phase, figures and events, with stable reasons. Pure."""
