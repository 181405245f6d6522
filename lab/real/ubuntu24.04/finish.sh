#!/bin/sh
# finish.sh: what the container image lacks of an installed Ubuntu 24.04 server.
set -eu
# the service instead of the socket: the host key has to be there before the first connection
systemctl disable ssh.socket 2>/dev/null || :
systemctl enable ssh.service systemd-networkd.service systemd-resolved.service
