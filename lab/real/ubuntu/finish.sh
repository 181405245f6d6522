#!/bin/sh
# finish.sh: what the container image lacks of an installed Ubuntu server.
set -eu
# a package that is installed on a server starts its service, and apt keeps its cache
rm -f /usr/sbin/policy-rc.d /etc/apt/apt.conf.d/docker-* /etc/dpkg/dpkg.cfg.d/excludes
# the lists look very old, so that cache_valid_time leads to a real apt-get update
touch -d @0 /var/lib/apt/lists
# the service instead of the socket: the host key has to be there before the first connection
systemctl disable ssh.socket 2>/dev/null || :
# the clock is the host's: nodes lack CAP_SYS_TIME, and chrony measures only (-x); the last EnvironmentFile counts
mkdir -p /etc/systemd/system/chrony.service.d
printf '[Unit]\nConditionCapability=\n[Service]\nEnvironmentFile=/etc/systemd/system/chrony.service.d/lab.env\n' \
  > /etc/systemd/system/chrony.service.d/lab.conf
echo 'DAEMON_OPTS=-x' > /etc/systemd/system/chrony.service.d/lab.env
systemctl enable ssh.service systemd-networkd.service systemd-resolved.service
