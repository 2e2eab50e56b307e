/**
 * The programs that come first on every host's PATH. A process host never changes its machine: programs that would
 * (package managers, services, users) answer as on a host that is set up, and change nothing. `sudo` runs its command
 * as the same user. `gcsfuse` mounts a folder of the emulator, unless Google's is set.
 *
 * They are POSIX shell, the only language of every host, and find the host by EMULATOR_HOST, which `sudo` keeps.
 */
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { shellQuote } from './boot-script.ts';
import { dockerClientScript, workerDockerScript } from './docker.ts';
import { rebootFile } from './reboot.ts';

const header = '#!/bin/sh\n';

const sudo = `${header}# Runs the command as the same user, the only one of a process host. EMULATOR_SUDO passes on the requested user.
shell=; EMULATOR_SUDO=root
while [ $# -gt 0 ]; do
  case "$1" in
    --) shift; break ;;
    -u|--user) EMULATOR_SUDO=\${2:-}; shift; [ $# -gt 0 ] && shift ;;
    -u?*) EMULATOR_SUDO=\${1#-u}; shift ;;
    --user=*) EMULATOR_SUDO=\${1#*=}; shift ;;
    -g|-h|-p|-C|-r|-t|-T|-U|-D|-R|--group|--host|--prompt|--chdir|--close-from) shift; [ $# -gt 0 ] && shift ;;
    -i|-s|--login|--shell) shell=1; shift ;;
    -v|-k|-K|-l|--validate|--list|--reset-timestamp) exit 0 ;;
    -V|--version) echo 'Sudo version 1.9.9'; exit 0 ;;
    -*) shift ;;
    [A-Za-z_]*=*) export "$1"; shift ;;
    *) break ;;
  esac
done
export EMULATOR_SUDO
while [ $# -gt 0 ]; do
  case "$1" in
    [A-Za-z_]*=*) export "$1"; shift ;;
    *) break ;;
  esac
done
if [ $# -eq 0 ]; then
  if [ -n "$shell" ]; then exec "\${SHELL:-/bin/sh}"; fi
  echo 'usage: sudo [-EHn] [-u user] [VAR=value] command' >&2
  exit 1
fi
# Without namespaces the files are the machine's own, so refuse to change them outside the home folder.
if [ ! -e "$EMULATOR_HOST/namespaces" ]; then
  case "\${1##*/}" in
    mkdir|rmdir|rm|mv|cp|ln|tee|touch|dd|install|chmod|chown|chgrp|sed)
      for arg in "$@"; do
        case "$arg" in
          "$HOME"|"$HOME"/*|/tmp/*|/dev/null) ;;
          /*) echo "sudo: namespaces cannot be created on this machine, so a process host must not change $arg; use a path inside the home folder $HOME" >&2; exit 1 ;;
        esac
      done ;;
  esac
fi
if [ -n "$shell" ]; then exec "\${SHELL:-/bin/sh}" -c 'exec "$@"' sh "$@"; fi
exec "$@"
`;

const aptGet = `${header}# A process host is set up already: report every package as installed, and change nothing.
command=; packages=; skip=
for arg in "$@"; do
  if [ -n "$skip" ]; then skip=; continue; fi
  case "$arg" in
    # Options whose value is the next argument: \`-o DPkg::Lock::Timeout=300\`.
    -o|-c|-t|-a|-P|--option|--config-file|--target-release|--default-release|--host-architecture) skip=yes ;;
    -*) ;;
    *) if [ -z "$command" ]; then command=$arg; else packages="$packages $arg"; fi ;;
  esac
done
case "$command" in
  update) echo 'Reading package lists... Done' ;;
  install|reinstall)
    echo 'Reading package lists... Done'
    echo 'Building dependency tree... Done'
    for arg in $packages; do echo "$arg is already the newest version."; done
    echo '0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.' ;;
  upgrade|dist-upgrade|full-upgrade|autoremove|remove|purge|clean|autoclean|build-dep|download|source)
    echo 'Reading package lists... Done'
    echo '0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.' ;;
  ''|help) echo 'apt 2.4.11 (amd64)' ;;
  list|show|search|policy|depends|check|moo) exit 0 ;;
  *) echo "E: Invalid operation $command" >&2; exit 100 ;;
esac
`;

const dpkg = `${header}# Queries go to the machine's own dpkg. Changes succeed and do nothing.
self=\${0##*/}
folder=\${0%/*}
PATH=$(printf %s "$PATH" | sed "s|^$folder:||")
case "$self $1" in
  'dpkg -i'|'dpkg --install'|'dpkg --configure'|'dpkg -r'|'dpkg --remove'|'dpkg -P'|'dpkg --purge'|'dpkg --unpack'|'dpkg --add-architecture') exit 0 ;;
esac
if command -v "$self" >/dev/null 2>&1 && "$self" "$@"; then exit 0; fi
status=$?
# A package that apt-get "installed" is known here as well.
case "$self $1" in
  'dpkg-query -W'|'dpkg-query --show') shift; for arg in "$@"; do case "$arg" in -*) ;; *) printf '%s\\t1.0\\n' "$arg" ;; esac; done; exit 0 ;;
  'dpkg -s'|'dpkg --status'|'dpkg-query -s') shift; for arg in "$@"; do printf 'Package: %s\\nStatus: install ok installed\\nVersion: 1.0\\n' "$arg"; done; exit 0 ;;
  'dpkg -l'|'dpkg-query -l') shift; for arg in "$@"; do printf 'ii  %s  1.0  amd64  (on a process host)\\n' "$arg"; done; exit 0 ;;
esac
exit "$status"
`;

const systemctl = `${header}# Knows ssh, and docker if the worker can have it. Starting any other service succeeds and does nothing.
command=; unit=
for arg in "$@"; do
  case "$arg" in
    -*) ;;
    *) if [ -z "$command" ]; then command=$arg; else unit=\${unit:-$arg}; fi ;;
  esac
done
case "$command $unit" in
  'is-active docker'*|'status docker'*) "\${0%/*}/worker-docker" is-active 2>/dev/null || { [ $? -eq 3 ] || echo inactive; exit 3; }; exit 0 ;;
  # Without Docker, starting its service does nothing, as for any other service. \`docker\` then prints the reason.
  'start docker'*|'stop docker'*|'restart docker'*) "\${0%/*}/worker-docker" "$command" || [ $? -eq 127 ]; exit ;;
esac
case "$command" in
  is-active|is-enabled|status)
    case "$unit" in
      ssh|sshd|ssh.service|sshd.service) echo active; exit 0 ;;
      *) echo inactive; exit 3 ;;
    esac ;;
  reboot) exec "\${0%/*}/reboot" ;;
  poweroff|halt|kexec|suspend|hibernate)
    echo "systemctl: $command is not possible on a process host of the emulator, which can only reboot." >&2
    exit 1 ;;
esac
exit 0
`;

const service = `${header}exec "\${0%/*}/systemctl" "\${2:-}" "\${1:-}"\n`;

const mountPrograms = `${header}# gcsfuse, and the programs that show or remove mounts. $EMULATOR_HOST/mounts lists the mounted buckets.
self=\${0##*/}
folder=\${0%/*}
state=\${folder%/*}
list=$EMULATOR_HOST/mounts
PATH=$(printf %s "$PATH" | sed "s|^$folder:||")
fail() { echo "$self: $1" >&2; exit 1; }
absolute() { case "$1" in /*) printf %s "$1" ;; *) printf %s "$PWD/$1" ;; esac | sed 's|//*|/|g; s|\\(.\\)/$|\\1|'; }
is_listed() { [ -f "$list" ] && cut -f2 "$list" | grep -Fxq -- "$1"; }
unlist() { { grep -v "	$1\\$" "$list" || :; } >"$list.new" 2>/dev/null; mv "$list.new" "$list"; }
unmount() {
  is_listed "$1" || return 2
  if [ -e "$EMULATOR_HOST/namespaces" ]; then env umount \${lazy:+-l} "$1" || return 1; else rm -f "$1" && mkdir -p "$1"; fi
  unlist "$1"
}
case "$self" in
  gcsfuse)
    # Google's own gcsfuse, if the emulator has it, uses the emulator's Storage like any client.
    if [ -e "$folder/real-gcsfuse" ]; then
      exec "$folder/real-gcsfuse" --custom-endpoint="$STORAGE_EMULATOR_HOST/storage/v1/" --anonymous-access --enable-hns=false "$@"
    fi
    bucket=; path=
    while [ $# -gt 0 ]; do
      case "$1" in
        -v|--version) echo 'gcsfuse version 2.5.1 (the emulator'"'"'s: a bucket is a folder)'; exit 0 ;;
        -h|--help) echo 'usage: gcsfuse [flags] bucket mount_point'; exit 0 ;;
        -o|--o|--only-dir|--dir-mode|--file-mode|--uid|--gid|--cache-dir|--config-file|--key-file|--log-file|--log-format|--stat-cache-ttl|--type-cache-ttl|--stat-cache-max-size-mb|--type-cache-max-size-mb|--metadata-cache-ttl-secs|--file-cache-max-size-mb|--rename-dir-limit|--max-conns-per-host|--billing-project|--temp-dir|--limit-bytes-per-sec|--limit-ops-per-sec|--sequential-read-size-mb|--client-protocol|--app-name|--log-severity|--prometheus-port) shift; [ $# -gt 0 ] && shift ;;
        -*) shift ;;
        *) if [ -z "$path" ] && [ -n "$bucket" ]; then path=$1; elif [ -z "$bucket" ]; then bucket=$1; else fail "too many arguments: $1"; fi; shift ;;
      esac
    done
    if [ -z "$path" ]; then fail 'needs a bucket and a mount point: gcsfuse [flags] bucket mount_point'; fi
    case "$bucket" in */*|.*|'') fail "$bucket is not a bucket name" ;; esac
    path=$(absolute "$path")
    mkdir -p "$state/buckets/$bucket" || fail "cannot create the bucket $bucket"
    # The first use of a bucket sets its location (world/buckets.ts). set -C keeps an existing one.
    if [ -r "$EMULATOR_HOST/zone" ] && mkdir -p "$state/buckets/.locations"; then
      region=$(sed 's/-[a-z]$//' "$EMULATOR_HOST/zone" | tr a-z A-Z)
      (set -C; printf '{"location":"%s","locationType":"region"}\\n' "$region" >"$state/buckets/.locations/$bucket") 2>/dev/null || :
    fi
    if is_listed "$path"; then fail "mounting: $path is a mount point already"; fi
    if [ -e "$EMULATOR_HOST/namespaces" ]; then
      [ -d "$path" ] || fail "the mount point $path does not exist; create it with mkdir -p first"
      env mount --bind "$state/buckets/$bucket" "$path" || fail "cannot mount $bucket at $path"
    else
      case "$path" in
        "$HOME"/*) ;;
        *) fail "mount namespaces cannot be created on this machine, so a bucket can be mounted only inside the home folder $HOME, not at $path" ;;
      esac
      if [ -d "$path" ] && [ ! -L "$path" ]; then rmdir "$path" 2>/dev/null || fail "$path is not empty"; fi
      ln -s "$state/buckets/$bucket" "$path" || fail "cannot create $path"
    fi
    printf '%s\\t%s\\n' "$bucket" "$path" >>"$list"
    echo 'File system has been successfully mounted.' ;;
  mountpoint)
    path=; quiet=
    for arg in "$@"; do case "$arg" in -q|--quiet) quiet=1 ;; -*) ;; *) path=$(absolute "$arg") ;; esac; done
    if is_listed "$path"; then [ -n "$quiet" ] || echo "$path is a mountpoint"; exit 0; fi
    exec env mountpoint "$@" ;;
  fusermount|fusermount3|umount)
    # Google's gcsfuse mounts with fusermount, and its mounts are not on our list.
    if [ -e "$folder/real-gcsfuse" ]; then exec env "$self" "$@"; fi
    lazy=; done=
    for arg in "$@"; do case "$arg" in -*l*|-z|-uz|--lazy) lazy=1 ;; esac; done
    for arg in "$@"; do
      case "$arg" in
        -*) ;;
        *) path=$(absolute "$arg")
           unmount "$path"
           case $? in
             0) done=1 ;;
             2) if [ "$self" = umount ]; then exec env umount "$@"; fi; fail "entry for $path not found in /etc/mtab" ;;
             *) exit 1 ;;
           esac ;;
      esac
    done
    [ -n "$done" ] || fail 'needs a mount point' ;;
  mount)
    if [ $# -gt 0 ]; then exec env mount "$@"; fi
    env mount
    [ -f "$list" ] && while IFS='	' read -r bucket path; do echo "$bucket on $path type fuse.gcsfuse (rw,nosuid,nodev)"; done <"$list"
    exit 0 ;;
esac
`;

const withTpu = `${header}# Runs a command that holds the worker's chips, like a program that has loaded libtpu. A second one fails and prints the owner.
chips=/dev
[ -e "$EMULATOR_HOST/namespaces" ] || chips=$EMULATOR_HOST/dev
if [ $# -eq 0 ]; then echo 'usage: with-tpu command [argument...]' >&2; exit 2; fi
in_use() {
  fd=$(find /proc/[0-9]*/fd -lname "$1" 2>/dev/null | head -n 1)
  if [ -n "$fd" ]; then
    pid=\${fd#/proc/}
    echo "The TPU is already in use by process with pid \${pid%%/*}. Not attempting to load libtpu.so in this process." >&2
    exit 1
  fi
  echo "The TPU is already in use by another process, probably of another user. Run sudo lsof -w $1 to find it." >&2
  exit 1
}
[ ! -e "$EMULATOR_HOST/namespaces" ] || : >>/tmp/libtpu_lockfile
for chip in "$chips"/accel[0-9]* "$chips"/vfio/[0-9]*; do
  [ -f "$chip" ] || continue
  flock --nonblock "$chip" true || in_use "$chip"
  set -- flock --nonblock --no-fork "$chip" "$@"
done
exec "$@"
`;

const journalctl = `${header}# There is no journal. Users search it for the output of the startup script.
case " $* " in *startup*) cat "$EMULATOR_HOST/startup-script.log" 2>/dev/null; exit 0 ;; esac
echo 'No journal files were found.'
`;

const snap = `${header}echo 'snap: not possible on a process host of the emulator, which must not change the machine; use pip or conda.' >&2\nexit 1\n`;

const sg = `${header}# Every user is in every group already: sg GROUP [-c] COMMAND.
shift
[ "$1" != -c ] || shift
[ $# -gt 0 ] || exec "\${SHELL:-/bin/sh}"
exec /bin/sh -c "$*"
`;

const noOpProgram = `${header}# Would change users, groups or keys of the machine; on a process host there is nothing to change.\nexit 0\n`;

const newgrp = `${header}# Every user is in every group already.\nexec "\${SHELL:-/bin/sh}"\n`;

const reboot = `${header}# For root only. The emulator finds the file, ends all processes of this worker, and boots it again.
case " $* " in
  *' --halt '*|*' --poweroff '*|*' -p '*) exec "\${0%/*}/poweroff" ;;
esac
case "\${EMULATOR_SUDO:-}" in
  '') [ "$(id -u)" -eq 0 ] ;;
  root|0|'#0') ;;
  *) false ;;
esac || { echo 'Call to Reboot failed: Interactive authentication required.' >&2; exit 1; }
: >"\${EMULATOR_HOST:?}/${rebootFile}"
`;

const shutdown = `${header}# Supports an immediate reboot only: shutdown -r now.
reboots=; time=
for arg in "$@"; do
  case "$arg" in
    -r|--reboot) reboots=1 ;;
    -*) ;;
    *) time=\${time:-$arg} ;;
  esac
done
case "$reboots $time" in
  '1 now'|'1 +0'|'1 0') exec "\${0%/*}/reboot" ;;
esac
echo 'shutdown: only an immediate reboot is possible on a process host of the emulator: shutdown -r now' >&2
exit 1
`;

const refusedPowerOff = `${header}echo "\${0##*/}: not possible on a process host of the emulator, which can only reboot." >&2\nexit 1\n`;

const scp = `${header}# The far end of scp -O is this program; without -O, scp and sftp need no program on the host.
folder=\${0%/*}
PATH=$(printf %s "$PATH" | sed "s|^$folder:||")
if command -v scp >/dev/null 2>&1; then exec scp "$@"; fi
echo 'scp: scp -O needs the program scp, and this host has none. Leave out -O: scp and sftp then work without it.' >&2
exit 127
`;

const hostname = `${header}read -r name <"$EMULATOR_HOST/hostname" && printf '%s\\n' "$name"\n`;

const scripts: Record<string, string> = {
  sudo,
  'apt-get': aptGet,
  apt: aptGet,
  dpkg,
  'dpkg-query': dpkg,
  systemctl,
  service,
  gcsfuse: mountPrograms,
  mountpoint: mountPrograms,
  fusermount: mountPrograms,
  fusermount3: mountPrograms,
  umount: mountPrograms,
  mount: mountPrograms,
  hostname,
  scp,
  newgrp,
  sg,
  journalctl,
  snap,
  'with-tpu': withTpu,
  docker: dockerClientScript,
  'worker-docker': workerDockerScript,
  reboot,
  shutdown,
  poweroff: refusedPowerOff,
  halt: refusedPowerOff,
};

for (const name of ['usermod', 'useradd', 'adduser', 'groupadd', 'gpasswd', 'apt-key', 'add-apt-repository']) {
  Object.assign(scripts, { [name]: noOpProgram });
}

function realGcsfuse(path: string): string {
  return `${header}exec ${shellQuote(path)} "$@"\n`;
}

/** Writes `<stateDir>/bin`. Replaces each file atomically, because hosts of an earlier emulator may be running them. */
export function writePrograms(stateDir: string, gcsfuse?: string): string {
  const folder = join(stateDir, 'bin');
  mkdirSync(folder, { recursive: true });
  const all = gcsfuse === undefined ? scripts : { ...scripts, 'real-gcsfuse': realGcsfuse(gcsfuse) };
  for (const name of readdirSync(folder)) {
    if (!Object.hasOwn(all, name)) rmSync(join(folder, name), { recursive: true, force: true });
  }
  for (const [name, text] of Object.entries(all)) {
    const path = join(folder, name);
    writeFileSync(`${path}.new`, text);
    chmodSync(`${path}.new`, 0o755);
    renameSync(`${path}.new`, path);
  }
  return folder;
}
