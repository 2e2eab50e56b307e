import type { SetupStep } from '../core/model/spec.ts';
import { minute } from '../core/model/time.ts';
import { quote } from '../catalogue/shell.ts';
import { aptFunctions, quotePath, writeFile, createStep } from './script.ts';
import type { BucketMount, GcsfuseModule } from './modules.ts';

export function gcsfuseStep(module: GcsfuseModule): SetupStep {
  return createStep({
    name: 'gcsfuse',
    check: `${isMounted}${recordDaemon}command -v gcsfuse >/dev/null || exit 1\n${module.mounts.map(checkMount).join('')}`,
    apply: `set -u\n${isMounted}${recordDaemon}${unmountDead}${installGcsfuse}${module.mounts.map(applyMount).join('')}`,
    timeoutMs: 20 * minute,
  });
}

function checkMount({ bucket, path }: BucketMount): string {
  return `is_mounted ${quote(bucket)} ${quotePath(path)} || exit 1\nrecord_daemon ${quotePath(path)}\n`;
}

// A container's user and the login user both work in the bucket, and gcsfuse has no file owners, so all may write.
function applyMount({ bucket, path, cache }: BucketMount): string {
  const folder = cache.dir === null ? [] : [`--cache-dir=${quotePath(cache.dir)}`];
  const options = [
    '--implicit-dirs',
    '--dir-mode=777',
    '--file-mode=777',
    '-o',
    'allow_other',
    ...folder,
    ...cache.flags,
  ];
  const prepareMount =
    cache.prepareScript === null
      ? ''
      : `before=$(mktemp) || exit 1\n${writeFile('"$before"', cache.prepareScript)}if ! bash "$before"; then
  echo 'The script gcsfuse.cache.prefix failed.' >&2
  exit 1
fi
rm -f "$before"
`;
  return `
bucket=${quote(bucket)}
path=${quotePath(path)}
unmount_dead "$path"
if ! is_mounted "$bucket" "$path"; then
  if mountpoint -q "$path"; then
    echo "Another file system is mounted at $path; unmount it, or choose another mount_path." >&2
    exit 1
  fi
${prepareMount}  mkdir -p "$path" 2>/dev/null || sudo -n mkdir -p "$path" || { echo "The folder $path cannot be created on this host." >&2; exit 1; }
  sudo -n gcsfuse ${options.join(' ')} --uid="$(id -u)" --gid="$(id -g)" "$bucket" "$path" || {
    echo "gcsfuse cannot mount the bucket $bucket at $path; see the lines above." >&2
    exit 1
  }
fi
ls "$path" >/dev/null || { echo "The bucket $bucket is mounted at $path but cannot be read." >&2; exit 1; }
record_daemon "$path"
echo "$bucket is mounted at $path."
`;
}

// The kernel's table names the bucket of a gcsfuse mount. A mount of another type (the TPU emulator's) always counts.
const isMounted = `is_mounted() {
  mountpoint -q "$2" || return 1
  source=$(findmnt -n -t fuse.gcsfuse -o SOURCE --mountpoint "$2" 2>/dev/null) || return 0
  [ -z "$source" ] || [ "$source" = "$1" ]
}
`;

// A mount whose daemon has died does not respond and cannot be mounted over. The kernel's table writes a space as \040.
const unmountDead = `unmount_dead() {
  while read -r _ point type _; do
    case $type in fuse*) ;; *) continue ;; esac
    if [ "$(printf '%b' "$point")" = "$1" ] && ! stat "$1" >/dev/null 2>&1; then
      echo "The mount at $1 no longer responds; mounting it again."
      sudo -n umount -l "$1"
      return
    fi
  done </proc/self/mounts
}
`;

// The step counts as done only while the recorded daemon lives (remote/run-folder.ts). The TPU emulator has none.
const recordDaemon = `record_daemon() {
  [ -n "\${JOBMAN_NEEDS:-}" ] || return 0
  for file in $(grep -ls gcsfuse /proc/[0-9]*/cmdline 2>/dev/null); do
    folder=\${file%/cmdline}
    [ "$(cat "$folder/comm" 2>/dev/null)" = gcsfuse ] || continue
    tr '\\0' '\\n' <"$file" 2>/dev/null | grep -qxF -- "$1" || continue
    stat=$(cat "$folder/stat" 2>/dev/null)
    echo "\${folder#/proc/} $(echo "\${stat##*) }" | cut -d ' ' -f 20)" >>"$JOBMAN_NEEDS"
  done
}
`;

const installGcsfuse = `${aptFunctions}
if ! command -v gcsfuse >/dev/null; then
  list=/etc/apt/sources.list.d/gcsfuse.list
  keyring=/usr/share/keyrings/cloud.google.asc
  codename=$(. /etc/os-release && echo "\${VERSION_CODENAME:-}")
  apt_update
  apt_install curl ca-certificates || exit 1
  curl -fsSL --retry 5 https://packages.cloud.google.com/apt/doc/apt-key.gpg | sudo -n tee "$keyring" >/dev/null &&
    echo "deb [signed-by=$keyring] https://packages.cloud.google.com/apt gcsfuse-$codename main" | sudo -n tee "$list" >/dev/null || exit 1
  apt_update && apt_install gcsfuse || exit 1
  command -v gcsfuse >/dev/null || { echo 'gcsfuse was installed, but was not found on this host.' >&2; exit 1; }
fi
`;
