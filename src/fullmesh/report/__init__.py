"""What a run leaves for people and programs: the terminal's summary, report.html, junit.xml, comparisons."""
