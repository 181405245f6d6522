"""Find the rank, collective and line in which a running job hangs. Pure: observations in, findings out."""
