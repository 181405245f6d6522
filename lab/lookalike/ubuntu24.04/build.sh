#!/bin/sh
# build.sh HERE: turn the Debian root into an Ubuntu-like one that knows no archive but /srv/repo.
set -eu
here=$1
rm -rf /var/lib/apt/lists/* /usr/sbin/policy-rc.d /etc/apt/sources.list /etc/apt/sources.list.d/*
apt-get clean
cp -a "$here/lookalike/ubuntu24.04/root/." /
ln -sf ../usr/lib/os-release /etc/os-release
# the lists look very old, so that cache_valid_time leads to a real apt-get update
touch -d @0 /var/lib/apt/lists
systemctl enable systemd-networkd.service
ln -sf /lib/systemd/system/ssh.service /etc/systemd/system/sshd.service
# the host's clock is not a node's to set: nodes lack CAP_SYS_TIME, and chrony measures only (-x), as Ubuntu's
# own starter script has it in a container
mkdir -p /etc/systemd/system/chrony.service.d
# shellcheck disable=SC2016  # systemd expands DAEMON_OPTS
printf '[Unit]\nConditionCapability=\n[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -x $DAEMON_OPTS\n' \
  > /etc/systemd/system/chrony.service.d/lab.conf
useradd -m -s /bin/bash -G sudo ubuntu
echo 'ubuntu ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/ubuntu
install -d /etc/apt/keyrings
printf 'Types: deb\nURIs: file:/srv/repo/ubuntu-main\nSuites: ./\nSigned-By: /srv/repo/lab-archive-keyring.gpg\n' \
  > /etc/apt/sources.list.d/ubuntu.sources
