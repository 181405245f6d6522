"""A running job hangs: which rank, in which collective, at which line. Pure: observations in, findings out."""
