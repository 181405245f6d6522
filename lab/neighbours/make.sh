#!/bin/bash
# make.sh: runs in the builder image and fills /out with the packages of others that nodes have (podman, keepalived ...).
#   $1: neighbours or docker, the folder of the lists   /lab  the folder above   /out/el/*.rpm   /out/ubuntu/*.deb
set -euo pipefail

apt-get update -q
mkdir -p /tmp/status /tmp/archives/partial /out/el /out/ubuntu
cp /var/lib/base-status /tmp/status/status
# shellcheck disable=SC2046  # one argument per package is wanted
apt-get -o Dir::State::status=/tmp/status/status -o Dir::Cache::archives=/tmp/archives -o APT::Sandbox::User=root \
  -qq -y --no-install-recommends --download-only install $(grep -v '^#' "/lab/$1/ubuntu.list")
cp /tmp/archives/*.deb /out/ubuntu/
python3 /lab/repo/deb2rpm.py /out/el < "/lab/$1/el.list"
