/**
 * A full disk. Hosts have no disks of their own that could be filled, so a layer that holds nothing is laid over the
 * folders that programs write to: what is there can be read, and whoever writes is told that no space is left. A file
 * that was open before can still be written to.
 */
import { spawn } from 'node:child_process';
import type { Machine } from './machine.ts';

/** Fills or empties the disk of a host with namespaces. Rejects with a sentence when it cannot be done. */
export async function setDiskFull(
  machine: Machine,
  folder: string,
  inUserNamespace: boolean,
  full: boolean,
): Promise<void> {
  const [command = '', ...words] = machine.enter(['/bin/sh', '-c', full ? fill : empty, folder]);
  const attributes = inUserNamespace ? ',userxattr' : '';
  await new Promise<void>((resolve, reject) => {
    const child = spawn(command, words, {
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ATTRIBUTES: attributes },
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`the disk cannot be ${full ? 'filled' : 'emptied'}: ${said.trim()}`)),
    );
  });
}

// A mounted bucket is not on the disk: it is shown again above the layer.
const fill = `folder=$0
[ ! -e /run/full/on ] || exit 0
mkdir -p /run/full && mount -t tmpfs -o mode=755,size=256k tmpfs /run/full || exit 1
number=0
for path in "$folder/home" /tmp /var/tmp /var/log; do
  [ -d "$path" ] || continue
  # Where the cloud's own folder lies below it, the layer would hide the host from itself.
  case "$folder" in "$path"/*) continue ;; esac
  number=$((number + 1))
  up=/run/full/$number
  mkdir -p "$up/up" "$up/work"
  chmod --reference="$path" "$up/up"
  mount -t overlay -o "lowerdir=$path,upperdir=$up/up,workdir=$up/work$ATTRIBUTES" overlay "$path" || {
    [ "$number" != 1 ] || exit 1
    continue
  }
  echo "$path" >>/run/full/on
done
state=\${folder%/*/*/*}
[ ! -f "$folder/mounts" ] || while IFS='	' read -r bucket path; do
  case "$path" in "$folder/home"/*|/tmp/*|/var/tmp/*) mount --bind "$state/buckets/$bucket" "$path" ;; esac
done <"$folder/mounts"
dd if=/dev/zero of=/run/full/ballast bs=4096 2>/dev/null
:
`;

const empty = `[ -e /run/full/on ] || exit 0
rm -f /run/full/ballast
while read -r path; do umount -l "$path"; done </run/full/on
umount -l /run/full
`;
