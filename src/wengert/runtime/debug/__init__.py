"""Looking into what ran: explain, profile, self-checking programs, bisection of a miscompile."""
