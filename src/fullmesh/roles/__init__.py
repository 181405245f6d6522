"""The controller's part of each role: its checks of settings and its values. One module per role."""
