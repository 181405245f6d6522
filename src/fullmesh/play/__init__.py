"""A run of ansible-playbook as a person or a program watches it: events, progress and views."""
