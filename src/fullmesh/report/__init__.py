"""Report a run to people and programs: the terminal's summary, report.html, junit.xml, comparisons."""
