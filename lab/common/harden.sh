#!/bin/sh
# harden.sh: runs once while a node image is built, look-alike and real alike.
# A privileged container with systemd must not re-trigger the host's devices, change its binfmt table,
# mount hugetlbfs and so on; and all nodes of one image must not share an identity.
set -eu
chmod 755 /usr/local/sbin/lab-procsys
# read at the start of every Python (lab_compiled.py says what for)
packages=$(python3 -c 'import site; print(site.getsitepackages()[0])')
mkdir -p "$packages"
mv /usr/local/share/lab_compiled.py "$packages/"
echo 'import lab_compiled; lab_compiled.install()' > "$packages/lab-compiled.pth"
systemctl enable lab-procsys.service lab-hostkeys.service
# one by one: a distribution may lack some of them
for unit in proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount systemd-binfmt.service \
  systemd-modules-load.service systemd-remount-fs.service dev-hugepages.mount dev-mqueue.mount \
  sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
  getty.target console-getty.service systemd-firstboot.service systemd-update-utmp.service \
  systemd-pcrphase.service systemd-pcrphase-sysinit.service kmod-static-nodes.service \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
  man-db.timer dnf-makecache.timer systemd-networkd-wait-online.service NetworkManager-wait-online.service; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
# inotify instances are counted for the whole machine (128 by default): a node does without those that nothing on
# it needs, among them a systemd for every login
for unit in systemd-ask-password-console.path systemd-ask-password-wall.path user@.service; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
# the clock and the kernel's modules are the host's: systemd drops the right to touch them, for itself and all it
# starts (podman ignores --cap-drop next to --privileged)
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nCapabilityBoundingSet=~CAP_SYS_TIME CAP_SYS_MODULE\n' > /etc/systemd/system.conf.d/10-lab.conf
mkdir -p /etc/systemd/system/systemd-udev-trigger.service.d /etc/systemd/journald.conf.d
printf '[Service]\nExecStart=\nExecStart=/bin/udevadm trigger --type=devices --action=add --subsystem-match=net\n' \
  > /etc/systemd/system/systemd-udev-trigger.service.d/lab.conf
printf '[Journal]\nStorage=volatile\n' > /etc/systemd/journald.conf.d/lab.conf
# the distribution's own kernel settings would be tried against this host's keys at every start
rm -f /usr/lib/sysctl.d/*.conf
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
