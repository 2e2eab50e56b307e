// Setup of a TPU's workers for one site: NFS shares and the W&B login. Used by commands, and as setup steps of a `tpu`
// job, which run again on a new TPU. A check changes nothing; an apply is safe to repeat.

import { quote } from '../catalogue/shell.ts';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import type { SetupStep, StepFile } from '../core/model/spec.ts';
import { minute, type Duration } from '../core/model/time.ts';
import type { NfsShare, Site } from './site.ts';

/** POSIX shell. Both exit with 0 if the setup is done. After a failure the last line of `apply` is the reason. */
export interface SetupScript {
  readonly check: string;
  readonly apply: string;
}

export function sharesOf(site: Pick<Site, 'shares'>, zone: string): readonly NfsShare[] {
  const escaped = (part: string): string => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const matches = (pattern: string): boolean =>
    new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`).test(zone);
  return site.shares.filter(({ zones }) => zones.length === 0 || zones.some(matches));
}

export function mountScript(shares: readonly NfsShare[]): SetupScript | null {
  if (shares.length === 0) return null;
  const lines = (verb: string): string =>
    shares
      .map(
        ({ source, target, options }) =>
          `${verb} ${[source, target, options === '' ? 'vers=3' : options].map(quote).join(' ')} || exit 1\n`,
      )
      .join('');
  return {
    check: `${mountFunctions}${lines('is_mounted')}`,
    apply: `${mountFunctions}${installNfs}${lines('mount_share')}`,
  };
}

/** A POSIX shell function that runs a command as root. The login of a TPU VM has sudo. */
export const sudoFunction = `as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@"; fi
}
`;

/**
 * POSIX shell functions. `source_at` prints the source of the mount at a path, or nothing; /proc/self/mounts writes a
 * space as \040. `answers`: listing a share whose server is down never returns.
 */
export const shareFunctions = `
source_at() {
  found=
  while read -r from point rest; do
    [ "$(printf '%b' "$point")" != "$1" ] || found=$(printf '%b' "$from")
  done </proc/self/mounts
  printf %s "$found"
}
answers() { timeout -s KILL 10 ls "$1" >/dev/null 2>&1; }
`;

const mountFunctions = `
fail() { echo "$1"; exit 1; }
${sudoFunction}${shareFunctions}is_mounted() { [ "$(source_at "$2")" = "$1" ] && answers "$2"; }
mount_share() {
  if is_mounted "$1" "$2"; then echo "$1 is mounted at $2."; return; fi
  there=$(source_at "$2")
  if [ -n "$there" ] && [ "$there" != "$1" ]; then fail "Cannot mount $1 at $2: $there is mounted there."; fi
  if [ -n "$there" ]; then
    echo "$1 at $2 does not answer. Mounting it again."
    as_administrator umount -l "$2" || fail "Cannot unmount $2."
  fi
  as_administrator mkdir -p "$2" || fail "Cannot create the folder $2."
  as_administrator timeout -s KILL 120 mount -t nfs -o "$3" "$1" "$2" || fail "Cannot mount $1 at $2; see the lines above."
  answers "$2" || fail "$1 is mounted at $2, but cannot be read."
  echo "$1 is mounted at $2."
}
`;

/** A new machine runs its own package updates. Interrupting them is unsafe, so apt-get waits for their lock. */
const installNfs = `
if ! command -v mount.nfs >/dev/null 2>&1 && ! [ -x /sbin/mount.nfs ] && ! [ -x /usr/sbin/mount.nfs ]; then
  echo 'Installing nfs-common.'
  tries=0
  until as_administrator env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y nfs-common; do
    tries=$((tries + 1))
    [ $tries -lt 3 ] || fail 'Cannot install nfs-common; see the lines above.'
    as_administrator apt-get -q -o DPkg::Lock::Timeout=300 update
  done
fi
`;

/** The variable that holds the key on a worker, unless `remoteKeyPath` does. */
export const wandbVariable = 'WANDB_API_KEY';
/** A setup step puts the key here and deletes the file after reading it. */
const remoteKeyPath = '~/.jobman/wandb-key';

/** Logs in like `wandb login`: an entry of ~/.netrc. The key appears in no command line. */
export const wandbScript: SetupScript = (() => {
  const functions = `
umask 077
fail() { echo "$1"; exit 1; }
given="$HOME/.jobman/wandb-key"
key=$\{${wandbVariable}:-}
if [ -z "$key" ] && [ -r "$given" ]; then read -r key <"$given"; fi
netrc=$\{NETRC:-$HOME/.netrc}
# Prints its entries, one a line.
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
[ -n "$key" ] || fail 'The worker received no W&B key.'
case $key in *[!A-Za-z0-9_.-]*) fail 'The W&B key is invalid.' ;; esac
fresh=$(mktemp "$netrc.XXXXXX") || fail "Cannot write $netrc."
# Other entries stay unchanged.
[ ! -r "$netrc" ] || awk '
  /^[ \\t]*(machine|default|macdef)([ \\t]|$)/ { isOld = $1 == "machine" && $2 == "api.wandb.ai" }
  !isOld && !(/^[ \\t]*$/ && wasBlank) { print }
  { wasBlank = /^[ \\t]*$/ }' "$netrc" >"$fresh"
printf 'machine api.wandb.ai\\n  login user\\n  password %s\\n' "$key" >>"$fresh" && mv -f "$fresh" "$netrc" || fail "Cannot write $netrc."
rm -f "$given"
echo 'Logged in to W&B.'
`,
  };
})();

/** A part of the site's setup. `step` names it in a job. */
export interface SiteSetup {
  readonly name: 'shares' | 'W&B';
  readonly step: string;
  readonly script: SetupScript;
  readonly timeoutMs: Duration;
}

export const wandbSetup: SiteSetup = { name: 'W&B', step: 'wandb', script: wandbScript, timeoutMs: 2 * minute };

/** The setup of a TPU of the zone. W&B comes first, because a share whose server is down must not prevent the login. */
export function siteSetups(site: Pick<Site, 'shares'>, zone: string, hasKey: boolean): readonly SiteSetup[] {
  const script = mountScript(sharesOf(site, zone));
  return [
    ...(hasKey ? [wandbSetup] : []),
    ...(script === null ? [] : [{ name: 'shares', step: 'mount-disk', script, timeoutMs: 15 * minute } as const]),
  ];
}

/** The secret of a job with the W&B key of the environment in which it was created. */
export const wandbSecret = { kind: 'job', secret: 'wandb-key', variable: wandbVariable } as const;

/** As setup steps of a job; with `hasOwnKey` it has the secret `wandbSecret`. */
export function siteSteps(
  site: Pick<Site, 'shares' | 'wandbKeyFile'>,
  zone: string,
  hasOwnKey = false,
): readonly SetupStep[] {
  return siteSetups(site, zone, hasOwnKey || site.wandbKeyFile !== null).map((setup) => {
    const { step: name, script, timeoutMs } = setup;
    const secret = hasOwnKey ? wandbSecret : ({ kind: 'setting', setting: 'lab.wandbKeyFile' } as const);
    const key: StepFile = { kind: 'secret', secret, to: remoteKeyPath, mode: 0o600 };
    const files = setup === wandbSetup ? [key] : [];
    return keyedStep({ name, files, timeoutMs }, script);
  });
}

/** The step with the key of its contents. */
export function keyedStep(
  step: Pick<SetupStep, 'name' | 'files' | 'timeoutMs'>,
  script: Pick<SetupStep, 'check' | 'apply'>,
): SetupStep {
  const hash = createHash('sha256').update(JSON.stringify([step.name, script, step.files]));
  return { ...step, ...script, key: hash.digest('hex').slice(0, 16) };
}

/** The key, or null. Throws JobmanError (2) if the file is unreadable or the value is not a key. */
export async function wandbKey(
  { wandbKeyFile }: Pick<Site, 'wandbKeyFile'>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | null> {
  const fromEnvironment = wandbKeyIn(env);
  if (fromEnvironment !== null) return fromEnvironment;
  if (wandbKeyFile === null) return null;
  let text: string;
  try {
    text = await readFile(wandbKeyFile, 'utf8');
  } catch (error) {
    throw new JobmanError(`Cannot read the file of the W&B key: ${wandbKeyFile}`, exitCode.usage, [
      messageOf(error),
      'jobman settings unset lab.wandbKeyFile    turns the login off',
    ]);
  }
  return validKey(text.trim(), `The file ${wandbKeyFile}`);
}

/** The key in the environment, or null. Throws JobmanError (2) if the value is not a key. */
export function wandbKeyIn(env: Readonly<Record<string, string | undefined>>): string | null {
  const text = (env[wandbVariable] ?? '').trim();
  return text === '' ? null : validKey(text, `The variable ${wandbVariable}`);
}

function validKey(key: string, source: string): string {
  if (/^[A-Za-z0-9_.-]{8,}$/.test(key)) return key;
  throw new JobmanError(`${source} does not contain a W&B key (letters and digits, no spaces).`, exitCode.usage);
}
