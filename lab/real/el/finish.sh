#!/bin/sh
# finish.sh: what the container image lacks of an installed system.
set -eu
# eth0 belongs to podman: only eth1 is NetworkManager's, and not before a profile for it exists
mkdir -p /etc/NetworkManager/conf.d
printf '[main]\nno-auto-default=*\n[keyfile]\nunmanaged-devices=interface-name:eth0\n' \
  > /etc/NetworkManager/conf.d/10-lab.conf
# the lab makes one host key, recorded in known_hosts; the distribution's own unit would race with it
ln -sf /dev/null /etc/systemd/system/sshd-keygen@.service
# the clock is the host's: nodes lack CAP_SYS_TIME, and chrony measures only (-x); the last EnvironmentFile counts
mkdir -p /etc/systemd/system/chronyd.service.d
printf '[Unit]\nConditionCapability=\n[Service]\nEnvironmentFile=/etc/systemd/system/chronyd.service.d/lab.env\n' \
  > /etc/systemd/system/chronyd.service.d/lab.conf
echo 'OPTIONS=-x' > /etc/systemd/system/chronyd.service.d/lab.env
systemctl enable sshd.service NetworkManager.service
