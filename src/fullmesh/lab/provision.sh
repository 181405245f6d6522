# provision.sh: read by `sh -s` in a node at every `lab up`; says "changed" or nothing.
#   $1 host name   $2 family   $3 public key   $4 cluster address that the lab itself gives (outsider), or ""
set -eu

ready=/var/lib/lab-node-ready
if [ ! -e "$ready" ]; then
  {
    echo '127.0.0.1 localhost'
    # as the Ubuntu installer writes it: it makes programs announce loopback, and is a trap on purpose
    if [ "$2" = ubuntu ]; then echo "127.0.1.1 $1"; fi
    echo '::1 ip6-localhost ip6-loopback'
  } > /etc/hosts
  # The image may carry the builder's name server. No node reaches it, and systemd-resolved, which read it at boot,
  # lets every lookup wait 40 s (chrony's start and stop among them). With real images podman mounts this file, and
  # it stays.
  : > /etc/resolv.conf 2>/dev/null || :
  if [ "$2" = ubuntu ] && [ -d /run/systemd/resolve ]; then
    ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf 2>/dev/null || :
    systemctl try-restart systemd-resolved.service
  fi
  touch "$ready"
  echo changed
fi
install -d -m 700 /root/.ssh
if ! grep -qsxF "$3" /root/.ssh/authorized_keys; then
  echo "$3" >> /root/.ssh/authorized_keys
  chmod 600 /root/.ssh/authorized_keys
fi
if [ -n "$4" ]; then
  ip link set eth1 up
  ip address replace "$4" dev eth1
fi
cat /etc/ssh/ssh_host_ed25519_key.pub
