// Setup of a TPU's workers for one site: its NFS shares, and a login to Weights & Biases. A check changes nothing and an apply may
// be repeated: for commands, and as setup steps of a `tpu` job, which run again on a new TPU.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { SetupStep, StepFile } from '../core/spec.ts';
import { minute } from '../core/time.ts';
import { shellWord } from './script.ts';
import type { Share, Site } from './site.ts';

/** POSIX shell; both exit with 0 when it holds. What went wrong is the last line that `apply` prints. */
export interface Remedy {
  readonly check: string;
  readonly apply: string;
}

export function sharesOf(site: Pick<Site, 'shares'>, zone: string): readonly Share[] {
  const escaped = (part: string): string => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const isMeant = (pattern: string): boolean =>
    new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`).test(zone);
  return site.shares.filter(({ zones }) => zones.length === 0 || zones.some(isMeant));
}

export function mountRemedy(shares: readonly Share[]): Remedy | null {
  if (shares.length === 0) return null;
  const lines = (verb: string): string =>
    shares
      .map(
        ({ source, target, options }) =>
          `${verb} ${[source, target, options === '' ? 'vers=3' : options].map(shellWord).join(' ')} || exit 1\n`,
      )
      .join('');
  return {
    check: `${mountFunctions}${lines('is_mounted')}`,
    apply: `${mountFunctions}${installNfs}${lines('mount_share')}`,
  };
}

/** A function of POSIX shell that runs a command as the administrator, whom the login of a TPU VM may become. */
export const administrator = `as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@"; fi
}
`;

/** In the kernel's table a blank is \040; whoever lists a share whose server is silent waits for ever, so nobody does. */
const mountFunctions = `
fail() { echo "$1"; exit 1; }
${administrator}# What is mounted at that path: the source, or nothing.
source_at() {
  found=
  while read -r from point rest; do
    [ "$(printf '%b' "$point")" != "$1" ] || found=$(printf '%b' "$from")
  done </proc/self/mounts
  printf %s "$found"
}
answers() { timeout -s KILL 10 ls "$1" >/dev/null 2>&1; }
is_mounted() { [ "$(source_at "$2")" = "$1" ] && answers "$2"; }
mount_share() {
  if is_mounted "$1" "$2"; then echo "$1 is mounted at $2."; return; fi
  there=$(source_at "$2")
  if [ -n "$there" ] && [ "$there" != "$1" ]; then fail "$there is mounted at $2, where $1 is to be."; fi
  if [ -n "$there" ]; then
    echo "$1 does not answer at $2; it is mounted again."
    as_administrator umount -l "$2" || fail "$2 cannot be unmounted."
  fi
  as_administrator mkdir -p "$2" || fail "The folder $2 cannot be made."
  as_administrator timeout -s KILL 120 mount -t nfs -o "$3" "$1" "$2" || fail "$1 cannot be mounted at $2; the lines above say why."
  answers "$2" || fail "$1 is mounted at $2 and cannot be read."
  echo "$1 is mounted at $2."
}
`;

/** A fresh machine runs its own updates, which must not be ended in the middle: the package manager waits for them. */
const installNfs = `
if ! command -v mount.nfs >/dev/null 2>&1 && ! [ -x /sbin/mount.nfs ] && ! [ -x /usr/sbin/mount.nfs ]; then
  echo 'Installing nfs-common.'
  tries=0
  until as_administrator env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y nfs-common; do
    tries=$((tries + 1))
    [ $tries -lt 3 ] || fail 'nfs-common cannot be installed; the lines above say why.'
    as_administrator apt-get -q -o DPkg::Lock::Timeout=300 update
  done
fi
`;

/** The variable in which the key travels to a worker, where it is not in `keyOnWorker`. */
export const wandbVariable = 'WANDB_API_KEY';
/** The file in which a setup step puts the key. It is deleted as soon as it was read. */
const keyOnWorker = '~/.jobman/wandb-key';

/** Logs in as `wandb login` does, by an entry of ~/.netrc for api.wandb.ai. Other entries stay. The key is in no command line. */
export const wandbRemedy: Remedy = (() => {
  const functions = `
umask 077
fail() { echo "$1"; exit 1; }
given="$HOME/.jobman/wandb-key"
key=$\{${wandbVariable}:-}
if [ -z "$key" ] && [ -r "$given" ]; then read -r key <"$given"; fi
netrc=$\{NETRC:-$HOME/.netrc}
# Its entries, one a line; an entry ends where the next begins.
entries() { [ ! -r "$netrc" ] || tr -s '[:space:]' ' ' <"$netrc" | sed 's/ *machine /\\
machine /g; s/ *default /\\
default /g'; }
wanted="machine api.wandb.ai login user password $key"
is_logged_in() {
  entries | while read -r line || [ -n "$line" ]; do
    case $line in
      "machine api.wandb.ai "*) [ -z "$key" ] || [ "$line" = "$wanted" ] || exit 1; exit 3 ;;
    esac
  done
  [ $? -eq 3 ]
}
`;
  return {
    check: `${functions}is_logged_in || exit 1\nrm -f "$given"\n`,
    apply: `${functions}
[ -n "$key" ] || fail 'No key for W&B has arrived.'
case $key in *[!A-Za-z0-9_.-]*) fail 'What should be a key for W&B is none.' ;; esac
fresh=$(mktemp "$netrc.XXXXXX") || fail "$netrc cannot be written."
# Everything else in it stays as it is written.
[ ! -r "$netrc" ] || awk '
  /^[ \\t]*(machine|default|macdef)([ \\t]|$)/ { isOld = $1 == "machine" && $2 == "api.wandb.ai" }
  !isOld && !(/^[ \\t]*$/ && wasBlank) { print }
  { wasBlank = /^[ \\t]*$/ }' "$netrc" >"$fresh"
printf 'machine api.wandb.ai\\n  login user\\n  password %s\\n' "$key" >>"$fresh" && mv -f "$fresh" "$netrc" || fail "$netrc cannot be written."
rm -f "$given"
echo 'Logged in to W&B.'
`,
  };
})();

/** The setup steps of a job on a TPU of that zone: the shares, then W&B where the site names a key. */
export function siteSteps(site: Pick<Site, 'shares' | 'wandbKeyFile'>, zone: string): readonly SetupStep[] {
  const mount = mountRemedy(sharesOf(site, zone));
  const { wandbKeyFile } = site;
  return [
    ...(mount === null ? [] : [step('mount-disk', mount, [], 15 * minute)]),
    ...(wandbKeyFile === null
      ? []
      : [
          step('wandb', wandbRemedy, [{ kind: 'local', from: wandbKeyFile, to: keyOnWorker, mode: 0o600 }], 2 * minute),
        ]),
  ];
}

function step(name: string, remedy: Remedy, files: readonly StepFile[], timeout: number): SetupStep {
  const key = createHash('sha256')
    .update(JSON.stringify([name, remedy, files]))
    .digest('hex')
    .slice(0, 16);
  return { name, key, ...remedy, files, timeout };
}

/** The key; null where there is none. Throws JobmanError (2) when there is something else in its place. */
export async function wandbKey(
  { wandbKeyFile }: Pick<Site, 'wandbKeyFile'>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | null> {
  const said = env[wandbVariable] ?? '';
  if (said !== '') return checked(said.trim(), `The variable ${wandbVariable}`);
  if (wandbKeyFile === null) return null;
  let text: string;
  try {
    text = await readFile(wandbKeyFile, 'utf8');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The file of the key for W&B cannot be read: ${wandbKeyFile}`, exitCode.usage, [
      why,
      'jobman settings unset lab.wandbKeyFile    does without',
    ]);
  }
  return checked(text.trim(), `The file ${wandbKeyFile}`);
}

function checked(key: string, called: string): string {
  if (/^[A-Za-z0-9_.-]{8,}$/.test(key)) return key;
  throw new JobmanError(
    `${called} should hold a key for W&B, one word of letters and digits, and does not.`,
    exitCode.usage,
  );
}
