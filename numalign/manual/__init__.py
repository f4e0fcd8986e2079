"""The manual as far as it follows from tables: man pages, and the options, checks and targets of the site."""
