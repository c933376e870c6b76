"""A module that nothing imports: not of an installed app, and named by a job only."""
