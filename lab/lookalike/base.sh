#!/bin/sh
# base.sh HERE: runs in the fresh Debian root before a family's own script.
set -eu
install -m 755 "$1/common/lab-procsys" /usr/local/sbin/
install -m 644 "$1/common/lab_compiled.py" /usr/local/share/
install -m 644 "$1"/common/*.service /etc/systemd/system/
# what a package installed during the build must not do: start services
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2046  # one argument per package is wanted
apt-get install -qy --no-install-recommends $(grep -v '^#' "$1/packages/$2-build.list")
