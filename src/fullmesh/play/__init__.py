"""Show a run of ansible-playbook to a person or a program: events, progress and views."""
