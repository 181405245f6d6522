#!/bin/sh
# finish.sh HERE: what a container needs that a machine does not. Packages, names and paths stay Debian's.
set -eu
install -m 755 "$1/common/lab-procsys" /usr/local/sbin/
install -m 644 "$1/common/lab_compiled.py" /usr/local/share/
install -m 644 "$1"/common/*.service /etc/systemd/system/
# Debian's archive with Debian's signatures, as it was when the lab kept its copy; nodes reach no other
# shellcheck source=/dev/null
. /etc/os-release
sed "s#^deb .*] [^ ]* #deb [check-valid-until=no by-hash=no] file:/srv/$ID$VERSION_ID #" \
  /etc/apt/sources.list.d/*.list > /etc/apt/sources.list
rm /etc/apt/sources.list.d/*.list
rm -rf /var/lib/apt/lists/*
# the lists look very old, so that cache_valid_time leads to a real apt-get update
touch -d @0 /var/lib/apt/lists
# the clock is the host's: nodes lack CAP_SYS_TIME, and chrony measures only (-x)
mkdir -p /etc/systemd/system/chrony.service.d
# shellcheck disable=SC2016  # systemd expands DAEMON_OPTS
printf '[Unit]\nConditionCapability=\n[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -x $DAEMON_OPTS\n' \
  > /etc/systemd/system/chrony.service.d/lab.conf
